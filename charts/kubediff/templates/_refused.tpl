{{/* What would work and must not be: credentials in plain sight, a volume that the state file outgrows. */}}

{{/* Refuses credentials that are written out in the configuration: they would stand in the values, in the ConfigMap and in
Helm's own record of the release. */}}
{{- define "kubediff.refusePlainText" -}}
{{- if not .Values.secrets.allowPlainText }}
{{- if kindIs "string" (dig "redact" "key" nil .Values.config) }}
{{- include "kubediff.plainText" "redact.key" }}
{{- end }}
{{- range $name, $sink := default dict .Values.config.sinks }}
{{- range $key := list "token" "webhook_url" "bearer_token" "password" "signing_secret" "client_key" }}
{{- $given := get $sink $key }}
{{- range $value := ternary $given (list $given) (kindIs "slice" $given) }}
{{- if and (kindIs "string" $value) (ne $value "") }}
{{- include "kubediff.plainText" (printf "sinks.%s.%s" $name $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- /* With a user, with a parameter that says what it is, or of those who put the credential into the path. */}}
{{- range $key := list "url" "proxy" }}
{{- $value := get $sink $key }}
{{- if kindIs "string" $value }}
{{- $user := regexMatch "^[a-zA-Z0-9+.-]+://[^/?#]*@" $value }}
{{- $parameter := regexMatch "(?i)[?&][a-z0-9_.-]*(token|secret|password|key|sig|signature|code|auth)=." $value }}
{{- $path := regexMatch "(?i)^https?://(hooks\\.slack\\.com/|discord(app)?\\.com/api/webhooks/|[^/]*\\.webhook\\.office\\.com/|[^/]*\\.logic\\.azure\\.com[:/]|chat\\.googleapis\\.com/)" $value }}
{{- if or $user $parameter $path }}
{{- include "kubediff.plainText" (printf "sinks.%s.%s" $name $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $table := list "headers" "vars" }}
{{- range $key, $value := default dict (get $sink $table) }}
{{- if and (kindIs "string" $value) (regexMatch "(?i)(authorization|token|secret|password|api-?_?key|cookie)" $key) }}
{{- include "kubediff.plainText" (printf "sinks.%s.%s.%s" $name $table $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kubediff.plainText" -}}
{{- fail (printf "config.%s is written out, for everyone to read in the ConfigMap and in Helm's record of the release: put it into a Secret, name that under secrets.env or secrets.files, and write {env: NAME} or {file: /run/secrets/kubediff/NAME} here; or set secrets.allowPlainText=true" .) }}
{{- end }}

{{/* Refuses a volume that the state file would outgrow before kubediff begins to forget. */}}
{{- define "kubediff.refuseSmallVolume" -}}
{{- $state := default dict .Values.config.state }}
{{- $there := hasPrefix "/var/lib/kubediff/" (default "" $state.path) }}
{{- if and $there (not (and .Values.persistence.enabled .Values.persistence.existingClaim)) }}
{{- /* Where it is left out kubediff has a default of its own. */}}
{{- $most := toString (default "2GiB" $state.max_bytes) }}
{{- if ge (float64 (include "kubediff.bytes" $most)) (float64 (include "kubediff.bytes" .Values.persistence.size)) }}
{{- fail (printf "config.state.max_bytes is %s, and persistence.size %s: the volume has to be larger, with room for the journal" $most .Values.persistence.size) }}
{{- end }}
{{- end }}
{{- end }}

{{/* A size in bytes, of Kubernetes or of kubediff: 1Gi, 768MiB, 5G, 1000. */}}
{{- define "kubediff.bytes" -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" . | default "0" | float64 }}
{{- $unit := regexFind "[A-Za-z]+$" . | trimSuffix "B" }}
{{- $factors := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "k" 1000 "K" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 }}
{{- mulf $number (float64 (get $factors $unit | default 1)) }}
{{- end }}
