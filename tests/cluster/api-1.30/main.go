// Reads manifests on stdin and decodes each strictly as the Kubernetes 1.30 API types have it: an unknown field, a field
// twice or a kind that is not there is an error. Prints the kinds that it took.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme,
		policyv1.AddToScheme, rbacv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			fail(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	for {
		document, err := documents.Read()
		if err == io.EOF {
			return
		}
		if err != nil {
			fail(err)
		}
		if empty(string(document)) {
			continue
		}
		_, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			fail(fmt.Errorf("%w in:\n%s", err, document))
		}
		fmt.Println(kind.Kind)
	}
}

func empty(document string) bool {
	for _, line := range strings.Split(document, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
