{{- define "scx-vaware.name" -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "scx-vaware.selector" -}}
app.kubernetes.io/name: scx-vaware
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "scx-vaware.labels" -}}
{{ include "scx-vaware.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "scx-vaware.port" -}}
{{ .Values.config.listen | splitList ":" | last }}
{{- end }}

{{- /* JSON's numbers, strings, booleans and lists of strings are TOML's, too. */}}
{{- define "scx-vaware.config" -}}
{{- range $key, $value := .Values.config }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
