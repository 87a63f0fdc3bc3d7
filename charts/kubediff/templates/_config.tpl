{{/* The configuration as TOML: the values, and what follows from rbac where they leave it open. */}}
{{- define "kubediff.config" -}}
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
