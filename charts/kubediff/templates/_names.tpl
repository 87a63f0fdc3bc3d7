{{/* Names and labels that all objects share. */}}

{{- define "kubediff.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "kubediff.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := include "kubediff.name" . }}
{{- /* 52: StatefulSets append a hash to the name in a label of 63. */}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Unique in the cluster, for roles that are seen from everywhere. */}}
{{- define "kubediff.rolename" -}}
{{ .Release.Namespace }}-{{ include "kubediff.fullname" . }}
{{- end }}

{{- define "kubediff.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "kubediff.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* What a selector matches: never changes between versions. */}}
{{- define "kubediff.selector" -}}
app.kubernetes.io/name: {{ include "kubediff.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kubediff.metadata" -}}
labels:
  {{- include "kubediff.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
  {{- with .Values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The same, with an object's own labels and annotations besides: (list $ $values). */}}
{{- define "kubediff.metadataWith" -}}
{{- $root := index . 0 }}
{{- $values := index . 1 }}
{{- $metadata := include "kubediff.metadata" $root | fromYaml -}}
labels:
  {{- toYaml (mergeOverwrite $metadata.labels (default dict $values.labels)) | nindent 2 }}
{{- with mergeOverwrite (default dict $metadata.annotations) (default dict $values.annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "kubediff.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* The port of the page, also of one on loopback, which a port-forward reaches; empty when it is off. Without a word about
it the program serves it at 127.0.0.1:8080. */}}
{{- define "kubediff.pagePort" -}}
{{- $server := default dict .Values.config.server }}
{{- if .Values.page.enabled }}
{{- .Values.page.port }}
{{- else if hasKey $server "page" }}
{{- regexFind "[0-9]+$" (default "" $server.page) }}
{{- else }}8080
{{- end }}
{{- end }}

{{/* The port of the probes; empty when they are off. */}}
{{- define "kubediff.port" -}}
{{- $address := default "" (dig "server" "probes" "" .Values.config) }}
{{- if or (hasPrefix "127." $address) (hasPrefix "localhost" $address) (hasPrefix "[::1]" $address) }}
{{- fail (printf "config.server.probes is %s, which the kubelet cannot reach: take 0.0.0.0 or [::], or \"\" for no probes" $address) }}
{{- end }}
{{- regexFind "[0-9]+$" $address }}
{{- end }}
