{{/* What may be read. The verbs are `list` and `watch` alone: `get` with a wildcard would open pods/exec and nodes/proxy,
which answer to HTTP GET, and kubediff never asks for a single object. */}}

{{- define "kubediff.namespaces" -}}
{{- default (list .Release.Namespace) .Values.rbac.namespaces | uniq | toJson }}
{{- end }}

{{- define "kubediff.rules" -}}
{{- $cluster := eq .Values.rbac.scope "cluster" }}
{{- $verbs := list "list" "watch" }}
{{- $rules := list }}
{{- if eq .Values.rbac.resources "all" }}
{{- $rules = list (dict "apiGroups" (list "*") "resources" (list "*") "verbs" $verbs) }}
{{- else if eq .Values.rbac.resources "no-secrets" }}
{{- $core := list "configmaps" "endpoints" "events" "limitranges" "persistentvolumeclaims" "pods" "podtemplates"
  "replicationcontrollers" "resourcequotas" "serviceaccounts" "services" }}
{{- $groups := list "apps" "autoscaling" "batch" "coordination.k8s.io" "discovery.k8s.io" "events.k8s.io"
  "networking.k8s.io" "policy" "rbac.authorization.k8s.io" "resource.k8s.io" "storage.k8s.io" }}
{{- if $cluster }}
{{- $core = concat $core (list "namespaces" "nodes" "persistentvolumes") }}
{{- $groups = concat $groups (list "admissionregistration.k8s.io" "apiextensions.k8s.io" "apiregistration.k8s.io"
  "certificates.k8s.io" "flowcontrol.apiserver.k8s.io" "node.k8s.io" "scheduling.k8s.io" "storagemigration.k8s.io") }}
{{- end }}
{{- range .Values.rbac.groups }}
{{- if has . (list "" "*" "core") }}
{{- fail (printf "rbac.groups has %q, which holds Secrets: name the groups of your CRDs, or use rbac.resources=all" .) }}
{{- end }}
{{- end }}
{{- $groups = concat $groups .Values.rbac.groups | uniq }}
{{- $rules = list (dict "apiGroups" (list "") "resources" $core "verbs" $verbs)
  (dict "apiGroups" $groups "resources" (list "*") "verbs" $verbs) }}
{{- else }}
{{- range .Values.rbac.rules }}
{{- $rules = append $rules (dict "apiGroups" .apiGroups "resources" .resources "verbs" $verbs) }}
{{- end }}
{{- if not $rules }}
{{- fail "rbac.resources=list needs rbac.rules: [{apiGroups: [apps], resources: [deployments]}]" }}
{{- end }}
{{- end }}
{{- toYaml $rules }}
{{- end }}
