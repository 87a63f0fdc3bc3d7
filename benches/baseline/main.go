// The baseline that kubediff is measured against: what the Go tools of this kind do, and no more. One dynamic shared
// informer per resource keeps every object as a tree in memory; an update is compared by reflect.DeepEqual, its fields
// by a plain walk, and one JSON document is posted to a webhook. A failed post is lost, as it is with those tools.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path"
	"reflect"
	"strconv"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// excluded is kubediff's default list: group pattern, resource pattern.
var excluded = [][2]string{
	{"", "events"},
	{"events.k8s.io", "events"},
	{"coordination.k8s.io", "leases"},
	{"", "endpoints"},
	{"discovery.k8s.io", "endpointslices"},
	{"certificates.k8s.io", "certificatesigningrequests"},
	{"cert-manager.io", "certificaterequests"},
	{"cilium.io", "ciliumidentities"},
	{"cilium.io", "ciliumendpoints"},
	{"*", "policyreports"},
	{"*", "clusterpolicyreports"},
}

// change is one field that differs.
type change struct {
	Path string `json:"path"`
	From any    `json:"from,omitempty"`
	To   any    `json:"to,omitempty"`
}

type resource struct {
	Group           string `json:"group"`
	Version         string `json:"version"`
	Resource        string `json:"resource"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
}

type event struct {
	Type     string    `json:"type"`
	Time     time.Time `json:"time"`
	Resource resource  `json:"resource"`
	Changes  []change  `json:"changes,omitempty"`
}

type sender struct {
	url    string
	client *http.Client
}

func (s *sender) send(e event) {
	body, err := json.Marshal(e)
	if err != nil {
		log.Printf("lost: %v", err)
		return
	}
	answer, err := s.client.Post(s.url, "application/json", bytes.NewReader(body))
	if err != nil {
		log.Printf("lost: %v", err)
		return
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		log.Printf("lost: %s", answer.Status)
	}
}

func describe(kind string, gvr schema.GroupVersionResource, object *unstructured.Unstructured, changes []change) event {
	return event{
		Type: kind,
		Time: time.Now(),
		Resource: resource{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: object.GetKind(),
			Namespace: object.GetNamespace(), Name: object.GetName(), ResourceVersion: object.GetResourceVersion(),
		},
		Changes: changes,
	}
}

func (s *sender) handler(gvr schema.GroupVersionResource) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if added, ok := object.(*unstructured.Unstructured); ok && !initial {
				s.send(describe("created", gvr, added, nil))
			}
		},
		UpdateFunc: func(before, after any) {
			old, ok := before.(*unstructured.Unstructured)
			if !ok {
				return
			}
			updated, ok := after.(*unstructured.Unstructured)
			if !ok || old.GetResourceVersion() == updated.GetResourceVersion() {
				return
			}
			if reflect.DeepEqual(old.Object, updated.Object) {
				return
			}
			changes := compare("", old.Object, updated.Object, nil)
			if len(changes) > 0 {
				s.send(describe("updated", gvr, updated, changes))
			}
		},
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if deleted, ok := object.(*unstructured.Unstructured); ok {
				s.send(describe("deleted", gvr, deleted, nil))
			}
		},
	}
}

// quiet are the paths that change with every write.
var quiet = map[string]bool{
	"/metadata/managedFields": true, "/metadata/resourceVersion": true, "/metadata/generation": true,
}

// compare walks two trees, lists by position.
func compare(at string, from, to any, found []change) []change {
	if quiet[at] {
		return found
	}
	switch old := from.(type) {
	case map[string]any:
		if updated, ok := to.(map[string]any); ok {
			for key, value := range old {
				found = compare(at+"/"+key, value, updated[key], found)
			}
			for key, value := range updated {
				if _, known := old[key]; !known {
					found = compare(at+"/"+key, nil, value, found)
				}
			}
			return found
		}
	case []any:
		if updated, ok := to.([]any); ok {
			for i := range max(len(old), len(updated)) {
				var a, b any
				if i < len(old) {
					a = old[i]
				}
				if i < len(updated) {
					b = updated[i]
				}
				found = compare(at+"/"+strconv.Itoa(i), a, b, found)
			}
			return found
		}
	}
	if reflect.DeepEqual(from, to) {
		return found
	}
	return append(found, change{Path: at, From: from, To: to})
}

func watched(gvr schema.GroupVersionResource) bool {
	for _, pattern := range excluded {
		group, _ := path.Match(pattern[0], gvr.Group)
		if group && pattern[1] == gvr.Resource {
			return false
		}
	}
	return true
}

func run(ctx context.Context, kubeconfig, url string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// The default of 5 requests a second would make its start look slower than such a tool has to be.
	config.QPS, config.Burst = 100, 200
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	lists, err := served.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return err
	}
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}, lists))
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	s := &sender{url: url, client: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, metav1.NamespaceAll, nil)
	for gvr := range resources {
		if !watched(gvr) {
			continue
		}
		if _, err := factory.ForResource(gvr).Informer().AddEventHandler(s.handler(gvr)); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	for gvr, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%s did not sync", gvr)
		}
	}
	fmt.Println("synced")
	<-ctx.Done()
	return nil
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig file")
	url := flag.String("webhook", "", "where changes are posted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *url); err != nil {
		log.Fatal(err)
	}
}
