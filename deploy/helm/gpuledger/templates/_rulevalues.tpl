{{- /* What takes the place of the last string or number of the rules' lines that end in a marker, as JSON by marker.
(list $ "the text of all rules") */ -}}
{{- define "gpuledger.ruleValues" -}}
{{- $values := (index . 0).Values.prometheusRule -}}
{{- $all := index . 1 -}}
{{- $literals := dict -}}
{{- range $name, $value := $values.settings }}
{{- $marker := printf "setting: %s" $name }}
{{- $value = toString $value }}
{{- $marked := regexFind (include "gpuledger.marked" $marker) $all }}
{{- if not $marked }}
{{- fail (printf "prometheusRule: no rule has the %s; rules/README.md lists what there is" $marker) }}
{{- else if hasPrefix "\"" $marked }}
{{- $_ := mustRegexMatch $value "" }}
{{- $_ := set $literals $marker (toRawJson $value) }}
{{- else if regexMatch `^[0-9]+([.][0-9]+)?(e[+-]?[0-9]+)?$` $value }}
{{- $_ := set $literals $marker $value }}
{{- else }}
{{- fail (printf "prometheusRule.settings.%s: %q is no number: write one without a unit, such as 0.05" $name $value) }}
{{- end }}
{{- end }}
{{- $chosen := list }}
{{- $tiers := $values.xidTiers | default dict }}
{{- range $name, $codes := $tiers }}
{{- if not (contains (printf "# tier: %s\n" $name) $all) }}
{{- fail (printf "prometheusRule: no rule has the tier: %s; docs/xids.md lists what there is" $name) }}
{{- end }}
{{- $chosen = concat $chosen ($codes | toStrings) }}
{{- end }}
{{- range $marker := regexFindAll `tier: [a-z ]+\n` $all -1 | uniq }}
{{- $marker = trim $marker }}
{{- $name := trimPrefix "tier: " $marker }}
{{- $codes := list }}
{{- range $code := splitList "|" (regexFind `[0-9|]+` (regexFind (include "gpuledger.marked" $marker) $all)) }}
{{- if not (has $code $chosen) }}
{{- $codes = append $codes $code }}
{{- end }}
{{- end }}
{{- if hasKey $tiers $name }}
{{- $codes = get $tiers $name }}
{{- else if hasPrefix "all but " $name }}
{{- $codes = concat $codes $chosen }}
{{- end }}
{{- if $chosen }}
{{- $_ := set $literals $marker (join "|" $codes | quote) }}
{{- end }}
{{- end }}
{{- toJson $literals }}
{{- end -}}

{{- /* A regular expression for what a marker stands behind (1), and the rest of the line (2). */ -}}
{{- define "gpuledger.marked" -}}
(?m)("[^"\n]*"|[0-9.]+)([^"0-9\n]*  # {{ . }})$
{{- end -}}
