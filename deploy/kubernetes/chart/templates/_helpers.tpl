{{/* Addresses of a role, as a TOML list. Takes (list root role count). */}}
{{- define "trainyard.addresses" -}}
{{- $root := index . 0 }}{{ $role := index . 1 }}{{ $all := list }}
{{- range $index := until (int (index . 2)) }}
{{- $all = append $all (printf "\"%s-%s-%d.%s.%s.svc:2222\"" $root.Release.Name $role $index $root.Release.Name $root.Release.Namespace) }}
{{- end -}}
[{{ join ", " $all }}]
{{- end }}

{{/* Labels of a role's pods. Takes (list root role). */}}
{{- define "trainyard.labels" -}}
app.kubernetes.io/name: trainyard
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The pod of a role. Takes a dictionary: root, role, index (an annotation or label of the pod, or absent), stateDir, restartPolicy. */}}
{{- define "trainyard.pod" -}}
{{- $values := .root.Values -}}
{{- if not (or $values.tls.secret $values.tls.insecure) }}{{ fail "give tls.secret, or set tls.insecure" }}{{ end -}}
metadata:
  labels:
    {{- include "trainyard.labels" (list .root .role) | nindent 4 }}
spec:
  subdomain: {{ .root.Release.Name }}
  restartPolicy: {{ .restartPolicy }}
  # More than --drain-deadline.
  terminationGracePeriodSeconds: {{ add $values.drainSeconds 15 }}
  automountServiceAccountToken: false
  {{- if eq .role "ps" }}
  # Two servers on one node fall with it together, with both replicas of a shard.
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "trainyard.labels" (list .root "ps") | nindent 16 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 64100
    runAsGroup: 64100
    fsGroup: 64100
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: {{ .role }}
      image: {{ $values.image | quote }}
      args:
        - run
        - --role={{ .role }}
        - --job=/etc/trainyard/job.toml
        - --cluster=/etc/trainyard/cluster.toml
        - --index={{ if .index }}$(INDEX){{ else }}0{{ end }}
        - --admin-listen=0.0.0.0:9222
        - --drain-deadline={{ $values.drainSeconds }}
        {{- if ne .role "evaluator" }}
        - --listen=0.0.0.0:2222
        {{- end }}
        {{- if .stateDir }}
        - --state-dir={{ .stateDir }}
        {{- end }}
      env:
        {{- if $values.tls.secret }}
        - { name: TRAINYARD_TLS_DIR, value: /run/trainyard/tls }
        {{- else }}
        - { name: TRAINYARD_INSECURE_NO_AUTH, value: "true" }
        {{- end }}
        {{- if .index }}
        - name: INDEX
          valueFrom:
            fieldRef: { fieldPath: {{ .index | quote }} }
        {{- end }}
      ports:
        {{- if ne .role "evaluator" }}
        - { name: tasks, containerPort: 2222 }
        {{- end }}
        - { name: admin, containerPort: 9222 }
      readinessProbe:
        httpGet: { path: /readyz, port: admin }
      # A daemon whose threads are stuck does not answer; systemd's watchdog does the same.
      livenessProbe:
        httpGet: { path: /healthz, port: admin }
        failureThreshold: 6
      resources:
        {{- toYaml (index $values .role).resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        - { name: files, mountPath: /etc/trainyard, readOnly: true }
        - { name: shared, mountPath: /srv/trainyard }
        - { name: tmp, mountPath: /tmp }
        - { name: var-tmp, mountPath: /var/tmp }
        {{- if $values.tls.secret }}
        - { name: tls, mountPath: /run/trainyard/tls, readOnly: true }
        {{- end }}
        {{- if .stateDir }}
        - { name: log, mountPath: {{ .stateDir }} }
        # The log lies in memory that outlives the container, not the pod.
        - { name: memory, mountPath: /dev/shm }
        {{- end }}
  volumes:
    - { name: files, configMap: { name: {{ .root.Release.Name }} } }
    - { name: shared, persistentVolumeClaim: { claimName: {{ $values.sharedClaim }} } }
    # With model_dir in a bucket, a server's part of a checkpoint lies in /tmp first.
    - { name: tmp, emptyDir: { sizeLimit: {{ $values.tmpSize }} } }
    - { name: var-tmp, emptyDir: { sizeLimit: {{ $values.tmpSize }} } }
    {{- if .stateDir }}
    # It takes an eighth of the memory limit, which counts it.
    - { name: memory, emptyDir: { medium: Memory, sizeLimit: {{ $values.ps.log.memory }} } }
    {{- end }}
    {{- if $values.tls.secret }}
    - { name: tls, secret: { secretName: {{ $values.tls.secret }}-{{ .role }}, defaultMode: 0440 } }
    {{- end }}
{{- end }}
