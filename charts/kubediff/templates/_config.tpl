{{/* The configuration as TOML: the values, and what follows from rbac where they leave it open. */}}
{{- define "kubediff.config" -}}
{{- include "kubediff.refusePlainText" . }}
{{- include "kubediff.refuseSmallVolume" . }}
{{- $config := deepCopy .Values.config }}
{{- $watch := deepCopy (default dict $config.watch) }}
{{- if eq .Values.rbac.scope "namespaces" }}
{{- $allowed := fromJsonArray (include "kubediff.namespaces" .) }}
{{- range default $allowed $watch.namespaces }}
{{- if not (has . $allowed) }}
{{- fail (printf "config.watch.namespaces has %q, which rbac.namespaces does not allow to be read: add it there, or use rbac.scope=cluster" .) }}
{{- end }}
{{- end }}
{{- $_ := set $watch "namespaces" (default $allowed $watch.namespaces) }}
{{- end }}
{{- if eq .Values.rbac.resources "no-secrets" }}
{{- if not (has (default "off" $watch.secrets) (list "off" false)) }}
{{- fail (printf "config.watch.secrets is %q, which rbac.resources=no-secrets does not allow: leave it out, or use rbac.resources=all" $watch.secrets) }}
{{- end }}
{{- $_ := set $watch "secrets" "off" }}
{{- end }}
{{- /* YAML reads a bare off as false. */}}
{{- if eq (toString $watch.secrets) "false" }}
{{- $_ := set $watch "secrets" "off" }}
{{- end }}
{{- if and (eq .Values.rbac.resources "list") (not $watch.include) }}
{{- $include := list }}
{{- range $rule := .Values.rbac.rules }}
{{- range $group := $rule.apiGroups }}
{{- range $resource := $rule.resources }}
{{- if eq $group "*" }}
{{- $include = append $include $resource }}
{{- else }}
{{- $include = append $include (printf "%s/%s" (default "v1" $group) $resource) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $_ := set $watch "include" (uniq $include) }}
{{- end }}
{{- if $watch }}
{{- $_ := set $config "watch" $watch }}
{{- end }}
{{- if eq (include "kubediff.ha" .) "true" }}
{{- $ha := deepCopy (default dict $config.ha) }}
{{- $_ := set $ha "enabled" true }}
{{- $_ := set $ha "lease" (include "kubediff.lease" .) }}
{{- $_ := set $ha "create_lease" false }}
{{- $_ := set $config "ha" $ha }}
{{- end }}
{{- if include "kubediff.redactionKey" . }}
{{- $key := dict "key" (dict "file" "/run/secrets/kubediff-redaction/key") }}
{{- $_ := set $config "redact" (mergeOverwrite (default dict $config.redact) $key) }}
{{- end }}
{{- $page := default "" (dig "server" "page" "" $config) }}
{{- if .Values.page.enabled }}
{{- if $page }}
{{- fail (printf "config.server.page is %s, and page.enabled sets it: leave it out, and use page.port" $page) }}
{{- end }}
{{- /* As the probes: where there is IPv6 alone, 0.0.0.0 is nowhere. */}}
{{- $host := ternary "[::]" "0.0.0.0" (hasPrefix "[" (default "" (dig "server" "probes" "" $config))) }}
{{- $_ := set $config "server" (mergeOverwrite (default dict $config.server) (dict "page" (printf "%s:%d" $host (int .Values.page.port)))) }}
{{- else if not (or (eq $page "") (hasPrefix "127." $page) (hasPrefix "localhost" $page) (hasPrefix "[::1]" $page)) }}
{{- fail (printf "config.server.page is %s, which others can reach: set page.enabled=true in its place, which also makes the Service and lets kubediff ask who they are" $page) }}
{{- end }}
{{- include "kubediff.whole" $config }}
{{- toToml $config }}
{{- end }}

{{/* Makes whole numbers of floats, in place: Helm reads every number of a values file as a float, and TOML tells them
apart. Drops nulls, which TOML does not have. */}}
{{- define "kubediff.whole" -}}
{{- $map := . }}
{{- range $key, $value := $map }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $map $key }}
{{- else if kindIs "map" $value }}
{{- include "kubediff.whole" $value }}
{{- else if kindIs "slice" $value }}
{{- $items := list }}
{{- range $item := $value }}
{{- if kindIs "map" $item }}
{{- include "kubediff.whole" $item }}
{{- end }}
{{- if eq (include "kubediff.isWhole" $item) "true" }}
{{- $items = append $items (int64 $item) }}
{{- else }}
{{- $items = append $items $item }}
{{- end }}
{{- end }}
{{- $_ := set $map $key $items }}
{{- else if eq (include "kubediff.isWhole" $value) "true" }}
{{- $_ := set $map $key (int64 $value) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kubediff.isWhole" -}}
{{- if kindIs "float64" . }}{{ if eq . (floor .) }}true{{ end }}{{ end }}
{{- end }}

{{/* Whether there is a Lease that says which replica delivers. */}}
{{- define "kubediff.ha" -}}
{{- $several := gt (int .Values.replicas) 1 }}
{{- if and $several .Values.persistence.existingClaim }}
{{- fail "replicas needs a volume for each pod, and persistence.existingClaim names one for all: leave it out" }}
{{- end }}
{{- $namespace := default "" (dig "ha" "namespace" "" .Values.config) }}
{{- if not (has $namespace (list "" .Release.Namespace)) }}
{{- fail (printf "config.ha.namespace is %q: the Lease is in the release's own namespace, where the chart allows it to be written" $namespace) }}
{{- end }}
{{- if or $several (dig "ha" "enabled" false .Values.config) }}true{{ end }}
{{- end }}

{{/* The name of the Secret with the key of the hashes; empty where each state file has its own, or the configuration names
another one. */}}
{{- define "kubediff.redactionKey" -}}
{{- with .Values.redactionKey }}
{{- $wanted := or (eq .create "always") (and (eq .create "auto") (eq (include "kubediff.ha" $) "true")) }}
{{- if dig "redact" "key" "" $.Values.config }}
{{- else if .existingSecret }}{{ .existingSecret }}
{{- else if $wanted }}{{ include "kubediff.fullname" $ }}-redaction-key
{{- end }}
{{- end }}
{{- end }}

{{- define "kubediff.lease" -}}
{{- default (include "kubediff.fullname" .) (dig "ha" "lease" "" .Values.config) }}
{{- end }}
