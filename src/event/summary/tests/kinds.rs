//! The kinds around workloads: access, network, numbers, jobs, storage, the cluster itself.

use super::says;

#[test]
fn rbac_says_who_may_do_what_from_now_on() {
    let head = "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: admins}, roleRef: {kind: Role, name: admin}, ";
    let alice = "{kind: User, name: alice}";
    says(
        head,
        &format!("subjects: [{alice}]}}"),
        &format!("subjects: [{alice}, {{kind: Group, name: contractors}}]}}"),
        "RoleBinding admins now also binds Group contractors",
    );
    says(
        head,
        &format!("subjects: [{alice}, {{kind: ServiceAccount, namespace: ci, name: deployer}}]}}"),
        &format!("subjects: [{alice}]}}"),
        "RoleBinding admins no longer binds ServiceAccount ci/deployer",
    );
    let head = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader}, ";
    says(
        head,
        "rules: [{apiGroups: [''], resources: [pods], verbs: [get, list]}]}",
        "rules: [{apiGroups: [''], resources: [pods, secrets], verbs: [get, list]}, {apiGroups: [apps], resources: [deployments], verbs: ['*']}]}",
        "ClusterRole reader now also allows everything on deployments.apps; get, list on secrets",
    );
    says(
        head,
        "rules: [{apiGroups: [''], resources: [pods], verbs: [get, delete]}]}",
        "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}",
        "ClusterRole reader no longer allows delete on pods",
    );
    says(
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: ci}, ",
        "imagePullSecrets: [{name: a}]}",
        "imagePullSecrets: [{name: a}, {name: b}]}",
        "image pull secret b added",
    );
}

#[test]
fn services_ingresses_and_policies_tell_who_talks_to_whom() {
    let head = "{apiVersion: v1, kind: Service, metadata: {name: web}, ";
    says(
        head,
        "spec: {type: ClusterIP, ports: [{name: http, port: 80, protocol: TCP}], selector: {app: web}}}",
        "spec: {type: LoadBalancer, ports: [{name: http, port: 80, protocol: TCP}, {name: https, port: 443, protocol: TCP}], selector: {app: web2}}}",
        "port https 443/TCP added; selector app web -> web2; type ClusterIP -> LoadBalancer",
    );
    says(
        head,
        "status: {loadBalancer: {}}}",
        "status: {loadBalancer: {ingress: [{ip: 203.0.113.7}]}}}",
        "load balancer is 203.0.113.7",
    );
    let head = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, ";
    let rule = |host: &str, service: &str| {
        format!(
            "{{host: {host}, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: {service}, port: {{number: 80}}}}}}}}]}}}}"
        )
    };
    says(
        head,
        &format!("spec: {{rules: [{}, {}]}}}}", rule("shop.example.com", "web"), rule("old.example.com", "web")),
        &format!("spec: {{rules: [{}, {}]}}}}", rule("shop.example.com", "web2"), rule("new.example.com", "web")),
        "shop.example.com/ goes to web2:80 (was web:80); new.example.com/ now goes to web:80; old.example.com/ no longer served",
    );
    says(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: db}, ",
        "spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}}",
        "spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}, {from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}}",
        "now also allows ingress from 10.0.0.0/8",
    );
}

#[test]
fn autoscalers_budgets_and_quotas_tell_their_numbers() {
    let head = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, ";
    says(
        head,
        "status: {currentReplicas: 3, desiredReplicas: 3, currentMetrics: [{type: Resource}]}}",
        "status: {currentReplicas: 3, desiredReplicas: 9, currentMetrics: [{type: Resource, x: 1}]}}",
        "HPA scaled 3 -> 9",
    );
    says(
        head,
        "spec: {minReplicas: 2, maxReplicas: 5}}",
        "spec: {minReplicas: 2, maxReplicas: 10}}",
        "maximum replicas 5 -> 10",
    );
    says(
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, ",
        "status: {disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2}}",
        "status: {disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2}}",
        "PDB allows no disruption: 2 healthy, 2 needed",
    );
    let head = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, ";
    says(head, "spec: {hard: {cpu: 10}}}", "spec: {hard: {cpu: 20}}}", "quota of cpu 10 -> 20");
    says(
        head,
        "status: {hard: {pods: 10}, used: {pods: 9}}}",
        "status: {hard: {pods: 10}, used: {pods: 10}}}",
        "pods used 9 -> 10 of 10",
    );
}

#[test]
fn jobs_and_cron_jobs_tell_how_they_ended() {
    let head = "{apiVersion: batch/v1, kind: Job, metadata: {name: migrate}, ";
    says(
        head,
        "status: {active: 1}}",
        "status: {succeeded: 1, conditions: [{type: Complete, status: 'True'}]}}",
        "Job completed",
    );
    says(
        head,
        "status: {failed: 3}}",
        "status: {failed: 4, conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: Job has reached the specified backoff limit}]}}",
        "Job failed: Job has reached the specified backoff limit",
    );
    let head = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: backup}, ";
    says(
        head,
        "spec: {schedule: '*/5 * * * *'}}",
        "spec: {schedule: '0 * * * *', suspend: true}}",
        "CronJob suspended; schedule */5 * * * * -> 0 * * * *",
    );
    says(
        head,
        "status: {lastScheduleTime: '2026-11-16T10:00:00Z'}}",
        "status: {lastScheduleTime: '2026-11-16T11:00:00Z', active: [{kind: Job, name: backup-28}]}}",
        "CronJob started backup-28",
    );
}

#[test]
fn storage_tells_binding_and_size() {
    let head = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, ";
    says(
        head,
        "spec: {a: 1}, status: {phase: Pending}}",
        "spec: {a: 1, volumeName: pv-1}, status: {phase: Bound}}",
        "claim bound to pv-1",
    );
    says(
        head,
        "spec: {resources: {requests: {storage: 10Gi}}}}",
        "spec: {resources: {requests: {storage: 20Gi}}}}",
        "requested storage 10Gi -> 20Gi",
    );
    says(
        "{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-1}, spec: {claimRef: {namespace: shop, name: data}}, ",
        "status: {phase: Bound}}",
        "status: {phase: Released}}",
        "volume Bound -> Released (shop/data)",
    );
}

#[test]
fn what_shapes_the_cluster_is_told_in_its_own_words() {
    says(
        "{apiVersion: v1, kind: Namespace, ",
        "metadata: {name: shop}, status: {phase: Active}}",
        "metadata: {name: shop, deletionTimestamp: '2026-11-16T10:00:00Z'}, status: {phase: Terminating}}",
        "Namespace is terminating",
    );
    says(
        "{apiVersion: v1, kind: Namespace, ",
        "metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: baseline}}}",
        "metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: restricted}}}",
        "pod security enforce baseline -> restricted",
    );
    let head = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.acme.example}, ";
    says(
        head,
        "spec: {versions: [{name: v1alpha1, served: true, storage: true, schema: {a: 1}}]}}",
        "spec: {versions: [{name: v1alpha1, served: false, storage: false, schema: {a: 2}}, {name: v1, served: true, storage: true}]}}",
        "version v1 added; version v1alpha1 is no longer served; schema of v1alpha1 changed",
    );
    says(
        "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: policy}, ",
        "webhooks: [{name: pods.acme.example, failurePolicy: Ignore, clientConfig: {caBundle: aaa}}]}",
        "webhooks: [{name: pods.acme.example, failurePolicy: Fail, clientConfig: {caBundle: bbb}}]}",
        "CA bundle of pods.acme.example replaced; failure policy of pods.acme.example Ignore -> Fail",
    );
}
