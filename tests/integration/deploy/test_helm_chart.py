"""The chart rendered by Helm's own library, each document against the schemas of Kubernetes."""

import json
import math
import subprocess
from pathlib import Path

import pytest
import yaml

from sandbox_service.config import ServiceConfig
from tests.harness.tool_environments import chart_python

ROOT = Path(__file__).parents[3]
RENDER = """
import json, sys
import helm_python
from scripts.render_chart import CHART, HEAD, MANIFESTS, check, read_values, render
asked = json.load(sys.stdin)
answers = []
for values in asked:
    try:
        manifests = render(values)
    except helm_python.HelmError as error:
        answers.append(f"error: {error}")
    else:
        check(manifests)
        answers.append(manifests)
files = {}
for path in sorted(MANIFESTS.glob("*.values.yaml")):
    manifests = render(read_values(path))
    check(manifests)
    files[path.name.replace(".values", "")] = HEAD.format(values=path.name) + manifests.strip() + "\\n"
json.dump({"answers": answers, "files": files, "lint": helm_python.lint(str(CHART))["errors"]}, sys.stdout)
"""
KEYS = {"server": {"api_keys": {"0" * 64: "team-a"}}}
SET = {"config": KEYS, "postgresql": {"secret": "db", "peers": [{"podSelector": {}}]}}
DEADLINE = ServiceConfig().deadline
LONGEST_END_S = math.ceil(DEADLINE.node_drain_s + DEADLINE.drain_s + DEADLINE.release_s)
"""Of a sandbox pod that empties itself, by default."""
OF_THE_CHART = {
    "store.url": {"store": {"url": "sqlite:///t"}},
    "sandbox.docker_host": {"sandbox": {"docker_host": "tcp://engine:2376"}},
    "sandbox.runsc": {"sandbox": {"runsc": "/opt/runsc"}},
    "sandbox.gvisor_root": {"sandbox": {"gvisor_root": "/opt/root"}},
    "fleet.scaling.max_nodes": {"fleet": {"scaling": {"target_use": 0.5, "max_nodes": 3}}},
    "fleet.scaling.enabled": {"fleet": {"scaling": {"enabled": True}}},
}
"""Settings that the chart makes of other values."""
CERTIFICATES = {
    "extraVolumes": [{"name": "certificates", "secret": {"secretName": "redis-tls"}}],
    "extraVolumeMounts": [{"name": "certificates", "mountPath": "/srv/tls", "readOnly": True}],
    "extraEnv": [{"name": "RAY_REDIS_CA_CERT", "value": "/srv/tls/ca.crt"}],
}
CLAIMED = "/var/cache/training-sandbox/environments"
"""The folder of the claim with environments."""
IN_THE_WAY = {
    **{
        f"a volume {name}": ({"extraVolumes": [{"name": name, "emptyDir": {}}]}, "choose another name")
        for name in ("config", "temporary", "state", "ray-logs")
    },
    **{
        f"a mount at {path}": (
            {**CERTIFICATES, "extraVolumeMounts": [{"name": "certificates", "mountPath": path}]},
            f"extraVolumeMounts has {path}, which is, contains or is in",
        )
        for path in ("/tmp", "/etc/", "/etc/sandbox-service/tls", "/var/lib/sandbox-service", "/srv/../run")
    },
    "a mount of no volume": ({**CERTIFICATES, "extraVolumes": []}, "certificates, which is none of extraV"),
    "the token's variable": (
        {"extraEnv": [{"name": "RAY_AUTH_MODE", "value": "disabled"}]},
        "/extraEnv/0/name",
    ),
    **{
        f"environments in {folder}": (
            {"environmentsClaim": "claim", "config": {**KEYS, "environments": {"packages_dir": folder}}},
            f"packages_dir is {folder}, which would be used in place of environmentsClaim: set one of",
        )
        for folder in ("/srv/environments", f"{CLAIMED}-2026-11", f"{CLAIMED}/../other")
    },
}
"""Values that the chart's own are in the way of, and what is said of them."""
OPENSHIFT = {
    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}}],
    "ports": [{"protocol": "UDP", "port": 5353}],
}
ASKED = {
    "without secrets": {},
    "docker without group": {**SET, "boxes": {"kind": "docker"}},
    "an unknown setting": {**SET, "config": {**KEYS, "pol": {"max_boxes": 4}}},
    "a setting of the wrong type": {**SET, "config": {**KEYS, "pool": {"max_boxes": "many"}}},
    "an unknown kind": {**SET, "boxes": {"kind": "process"}},
    "autoscaling without the API": {**SET, "sandbox": {"autoscaling": True}},
    "more pods than the most": {**SET, "sandbox": {"replicas": 12}},
    "fewer pods than the least": {**SET, "sandbox": {"minReplicas": 4}},
    "autoscaling to nothing": {
        **SET,
        "sandbox": {"autoscaling": True, "minReplicas": 0, "maxReplicas": 0},
        "networkPolicy": {"apiServer": [{"podSelector": {}}]},
    },
    "Redis without peers": {**SET, "ray": {"redis": {"address": "redis:6379"}}},
    "Redis without peers or policy": {
        **SET,
        "ray": {"redis": {"address": "redis:6379"}},
        "networkPolicy": {"enabled": False},
    },
    "Redis over TLS": {
        **SET,
        "ray": {"redis": {"address": "rediss://redis.db.svc:6380", "peers": [{"podSelector": {}}]}},
    },
    "too little time to end": {**SET, "terminationGracePeriodSeconds": LONGEST_END_S + 59},
    "enough time to end": {**SET, "terminationGracePeriodSeconds": LONGEST_END_S + 60},
    "too little time to end for longer drains": {
        **SET,
        "config": {**KEYS, "deadline": {"node_drain_s": DEADLINE.node_drain_s + 0.5}},
        "terminationGracePeriodSeconds": LONGEST_END_S + 60,
    },
    "enough time to end for short drains": {
        **SET,
        "config": {**KEYS, "deadline": {"node_drain_s": 1}},
        "terminationGracePeriodSeconds": LONGEST_END_S + 61 - math.floor(DEADLINE.node_drain_s),
    },
    "least": SET,
    "autoscaling": {
        **SET,
        "sandbox": {"autoscaling": True, "minReplicas": 0, "maxReplicas": 5},
        "networkPolicy": {"apiServer": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]},
    },
    "everything of KubeRay": {
        **SET,
        "ray": {
            "tokenSecret": "token",
            "redis": {"address": "redis:6379", "passwordSecret": "redis", "peers": [{"podSelector": {}}]},
        },
        "sandbox": {"autoscaling": True},
        "networkPolicy": {"apiServer": [{"podSelector": {}}]},
        "trainer": {"enabled": True, "runsClaim": "runs", "replicas": 4},
    },
    "everything off": {**SET, "networkPolicy": {"enabled": False}, "disruptionBudget": {"enabled": False}},
    **{
        f"the claim's {folder}": {
            **SET,
            "environmentsClaim": "claim",
            "config": {**KEYS, "environments": {"packages_dir": folder}},
        }
        for folder in (CLAIMED, f"{CLAIMED}/2026-11")
    },
    "an image of one's own": {**SET, "image": {"repository": "registry.example/mine", "tag": "7"}},
    "fewer gateways than pods": {
        **SET,
        "config": {"server": {**KEYS["server"], "replicas": 2}},
        "sandbox": {"replicas": 5},
    },
    "more gateways than pods": {
        **SET,
        "config": {"server": {**KEYS["server"], "replicas": 5}},
        "disruptionBudget": {"maxUnavailable": 2},
    },
    "rolling": {**SET, "rollOnConfigChange": True},
    "rolling, changed": {**SET, "rollOnConfigChange": True, "config": {**KEYS, "pool": {"max_boxes": 4}}},
    "changed": {**SET, "config": {**KEYS, "pool": {"max_boxes": 4}}},
    "certificates of one's own": {**SET, **CERTIFICATES},
    "another DNS": {**SET, "networkPolicy": {"dns": [OPENSHIFT]}},
    **{name: {**SET, **values} for name, (values, _) in IN_THE_WAY.items()},
    "numbers": {**SET, "config": {**KEYS, "deadline": {"step_s": 90.5, "agent_s": 3600}}},
    **{name: {**SET, "config": {**KEYS, **config}} for name, config in OF_THE_CHART.items()},
}


@pytest.fixture(scope="module")
def rendered():
    """The answers of one process of Helm to all values."""
    done = subprocess.run(
        [chart_python(), "-c", RENDER],
        input=json.dumps(list(ASKED.values())),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {**found, "answers": dict(zip(ASKED, found["answers"], strict=True))}


def test_the_chart_has_no_error_of_lint(rendered) -> None:
    assert rendered["lint"] == []


def test_a_chart_without_secrets_has_one_error_that_names_all_of_them(rendered) -> None:
    said = rendered["answers"]["without secrets"]
    assert said.startswith("error: ")
    assert "these values have to be set: postgresql.secret" in said
    assert "config.server.api_keys (made by: sandbox-service keys new TENANT)" in said
    assert said.count("have to be set") == 1


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("docker without group", "boxes.docker.group"),
        *((name, f"config.{name} is the chart's") for name in OF_THE_CHART),
        *((name, reason) for name, (_, reason) in IN_THE_WAY.items()),
        ("an unknown setting", "additional properties 'pol' not allowed"),
        ("a setting of the wrong type", "/config/pool/max_boxes"),
        ("an unknown kind", "'gvisor', 'docker'"),
        ("autoscaling without the API", "networkPolicy.apiServer"),
        (
            "more pods than the most",
            "replicas is 12: it has to be from sandbox.minReplicas (1) to sandbox.",
        ),
        ("fewer pods than the least", "sandbox.replicas is 2: it has to be from sandbox.minReplicas (4)"),
        ("autoscaling to nothing", "sandbox.maxReplicas is 0: it has to be at least 1"),
        ("Redis without peers", "these values have to be set: ray.redis.peers"),
        (
            "too little time to end",
            f"Seconds is {LONGEST_END_S + 59}: it has to be at least {LONGEST_END_S + 60}",
        ),
        ("too little time to end for longer drains", f"it has to be at least {LONGEST_END_S + 60.5}"),
    ],
)
def test_values_that_cannot_work_are_refused_with_the_reason(rendered, values, reason) -> None:
    assert rendered["answers"][values].startswith("error: ")
    assert reason in rendered["answers"][values]


def test_the_fields_of_all_values_are_known_to_kuberay(rendered) -> None:
    text = rendered["answers"]["everything of KubeRay"]
    assert not text.startswith("error: ")
    for field in ("secretName: token", "redisPassword:", "autoscalerOptions:", "kind: RayCluster\n"):
        assert field in text


def test_redis_needs_no_peers_where_the_platform_has_the_policies(rendered) -> None:
    assert "redisAddress: " in rendered["answers"]["Redis without peers or policy"]


def test_redis_over_tls_is_named_to_ray_and_open_at_its_port(rendered) -> None:
    documents = [each for each in yaml.safe_load_all(rendered["answers"]["Redis over TLS"]) if each]
    (service,) = [each["spec"] for each in documents if each["kind"] == "RayService"]
    options = service["rayClusterConfig"]["gcsFaultToleranceOptions"]
    assert options["redisAddress"] == "rediss://redis.db.svc:6380"
    (policy,) = [
        each for each in documents if each["metadata"]["name"] == "sandbox" and "Policy" in each["kind"]
    ]
    assert [6380] in [[port["port"] for port in rule.get("ports", ())] for rule in policy["spec"]["egress"]]


@pytest.mark.parametrize("values", ["enough time to end", "enough time to end for short drains"])
def test_pods_that_have_time_to_empty_themselves_are_accepted(rendered, values) -> None:
    assert "kind: RayService" in rendered["answers"][values]


@pytest.mark.parametrize("folder", [CLAIMED, f"{CLAIMED}/2026-11"])
def test_environments_are_served_from_any_folder_of_their_claim(rendered, folder) -> None:
    said = rendered["answers"][f"the claim's {folder}"]
    assert f'packages_dir = "{folder}"' in said
    assert f"mountPath: {CLAIMED}" in said or f'mountPath: "{CLAIMED}"' in said


def test_all_pods_of_the_trainer_are_started(rendered) -> None:
    """KubeRay starts ``maxReplicas`` at most."""
    documents = [each for each in yaml.safe_load_all(rendered["answers"]["everything of KubeRay"]) if each]
    (cluster,) = [each["spec"] for each in documents if each["kind"] == "RayCluster"]
    (group,) = cluster["workerGroupSpecs"]
    assert (group["replicas"], group["maxReplicas"]) == (4, 4)


def test_the_least_values_give_valid_manifests(rendered) -> None:
    assert "kind: RayService" in rendered["answers"]["least"]
    assert "kind: RayCluster\n" not in rendered["answers"]["least"]


def test_an_image_of_ones_own_is_run_as_it_is_named(rendered) -> None:
    assert 'image: "registry.example/mine:7"' in rendered["answers"]["an image of one's own"]
    release = yaml.safe_load((ROOT / "deploy/helm/training-sandbox/Chart.yaml").read_text())["appVersion"]
    assert f'image: "training-sandbox:{release}-gvisor"' in rendered["answers"]["least"]


def test_volumes_and_variables_of_ones_own_are_in_the_pods_of_the_service(rendered) -> None:
    documents = yaml.safe_load_all(rendered["answers"]["certificates of one's own"])
    (service,) = [each["spec"] for each in documents if each and each["kind"] == "RayService"]
    cluster = service["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        for given, found in (
            ("extraVolumes", pod["volumes"]),
            ("extraVolumeMounts", container["volumeMounts"]),
            ("extraEnv", container["env"]),
        ):
            assert found[-1:] == CERTIFICATES[given]
            assert len(found) > 1


@pytest.mark.parametrize(("values", "port"), [("least", 53), ("another DNS", 5353)])
def test_pods_reach_dns_where_the_cluster_has_it(rendered, values, port) -> None:
    documents = [each for each in yaml.safe_load_all(rendered["answers"][values]) if each]
    (policy,) = [each for each in documents if each["kind"] == "NetworkPolicy"]
    ports = {each["port"] for rule in policy["spec"]["egress"] for each in rule.get("ports", ())}
    assert ports == {port, 5432}


def test_autoscaling_is_set_for_ray_and_for_the_service_alike(rendered) -> None:
    documents = [each for each in yaml.safe_load_all(rendered["answers"]["autoscaling"]) if each]
    (service,) = [each["spec"] for each in documents if each["kind"] == "RayService"]
    cluster = service["rayClusterConfig"]
    assert cluster["enableInTreeAutoscaling"] is True
    (group,) = cluster["workerGroupSpecs"]
    arguments = yaml.safe_load(service["serveConfigV2"])["applications"][0]["args"]
    fleet = ServiceConfig.model_validate(arguments).fleet
    assert json.loads(json.loads(group["rayStartParams"]["resources"])) == {fleet.node_resource: 1}
    assert (fleet.scaling.enabled, fleet.scaling.min_nodes, fleet.scaling.max_nodes) == (True, 1, 5)
    assert group["maxReplicas"] == 5


def test_only_the_head_of_an_autoscaled_cluster_calls_the_api_of_kubernetes(rendered) -> None:
    documents = [each for each in yaml.safe_load_all(rendered["answers"]["autoscaling"]) if each]
    (cluster,) = [each["spec"]["rayClusterConfig"] for each in documents if each["kind"] == "RayService"]
    assert cluster["headGroupSpec"]["template"]["spec"]["automountServiceAccountToken"] is True
    for group in cluster["workerGroupSpecs"]:
        assert group["template"]["spec"]["automountServiceAccountToken"] is False
    (policy,) = [each for each in documents if each["metadata"]["name"].endswith("-autoscaler")]
    assert policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "head"


@pytest.mark.parametrize(
    ("values", "replicas", "on_a_node", "available"),
    [
        ("least", 2, 1, 1),
        ("fewer gateways than pods", 2, 1, 1),
        ("more gateways than pods", 5, 3, 0),
        ("autoscaling", 1, 1, 0),
    ],
)
def test_the_budget_counts_the_pods_that_a_gateway_makes_ready(
    rendered, values, replicas, on_a_node, available
) -> None:
    documents = [each for each in yaml.safe_load_all(rendered["answers"][values]) if each]
    (service,) = [each["spec"] for each in documents if each["kind"] == "RayService"]
    (application,) = yaml.safe_load(service["serveConfigV2"])["applications"]
    assert ServiceConfig.model_validate(application["args"]).server.replicas == replicas
    assert application["deployments"] == [{"name": "gateway", "max_replicas_per_node": on_a_node}]
    budgets = {each["metadata"]["name"]: each["spec"] for each in documents if "Budget" in each["kind"]}
    assert budgets["sandbox-sandbox"]["minAvailable"] == available


def test_a_changed_configuration_makes_a_new_cluster_only_if_it_is_asked_for(rendered) -> None:
    """KubeRay makes one whenever ``rayClusterConfig`` differs."""

    def cluster(values):
        documents = [each for each in yaml.safe_load_all(rendered["answers"][values]) if each]
        (service,) = [each["spec"] for each in documents if each["kind"] == "RayService"]
        return service["rayClusterConfig"]

    assert cluster("changed") == cluster("least")
    assert cluster("rolling, changed") != cluster("rolling")


def test_policies_can_be_left_to_the_platform(rendered) -> None:
    assert "kind: NetworkPolicy" not in rendered["answers"]["everything off"]
    assert "kind: PodDisruptionBudget" not in rendered["answers"]["everything off"]


def test_numbers_of_the_configuration_stay_what_they_are(rendered) -> None:
    assert "step_s = 90.5\n" in rendered["answers"]["numbers"]
    assert "agent_s = 3600\n" in rendered["answers"]["numbers"]


def test_the_manifests_in_the_repository_are_those_of_the_chart(rendered) -> None:
    for name, text in rendered["files"].items():
        assert (ROOT / "deploy" / "kubernetes" / name).read_text() == text, f"render {name} anew: make chart"
