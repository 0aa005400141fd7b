"""The manifests of deploy/kubernetes, and the chart's values: what every cluster can rely on."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from deploy.exposure import check_reach
from sandbox_service.config import ServiceConfig
from sandbox_service.sandboxes.container import ContainerChoices
from sandbox_service.trajectories.engine import store_url
from scripts.chart_schema import with_settings
from scripts.install import Machine, choose
from scripts.project_image import Recipe, recipe_of

DEPLOY = Path(__file__).parents[3] / "deploy"
CHART = DEPLOY / "helm" / "training-sandbox"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
KUBERAY = json.loads((DEPLOY.parent / "scripts" / "kuberay_schema.json").read_text())
FILES = sorted(path for path in (DEPLOY / "kubernetes").glob("*.yaml") if ".values." not in path.name)


def read(path):
    """Return the documents of a file by kind and name."""
    documents = [each for each in yaml.safe_load_all(path.read_text()) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def clusters(documents):
    """Return the specification of each Ray cluster."""
    return [
        each["spec"].get("rayClusterConfig", each["spec"])
        for (kind, _), each in documents.items()
        if kind in ("RayService", "RayCluster")
    ]


def pods(documents):
    """Return the specifications of all pods."""
    return [
        group["template"]["spec"]
        for cluster in clusters(documents)
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
    ]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def documents(request):
    return read(request.param)


def service(documents):
    return yaml.safe_load(documents["RayService", "sandbox"]["spec"]["serveConfigV2"])


def test_the_service_takes_its_configuration_and_may_serve_its_address(documents) -> None:
    serve = service(documents)
    config = ServiceConfig.model_validate(serve["applications"][0]["args"])
    assert (config.server.host, config.server.port) == tuple(serve["http_options"].values())
    assert config.server.api_keys
    assert not config.server.insecure
    check_reach(config)
    assert store_url(config.store.url).get_backend_name() == "postgresql"


def test_the_nodes_front_and_the_service_have_one_configuration(documents) -> None:
    text = documents["Secret", "sandbox-config"]["stringData"]["service.toml"]
    node = ServiceConfig.model_validate(tomllib.loads(text))
    assert node == ServiceConfig.model_validate(service(documents)["applications"][0]["args"])


def test_every_cluster_of_ray_requires_a_token(documents) -> None:
    assert clusters(documents)
    assert all(cluster["authOptions"]["mode"] == "token" for cluster in clusters(documents))


def test_pods_have_no_rights(documents) -> None:
    for pod in pods(documents):
        assert pod["securityContext"]["runAsNonRoot"] is True
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            assert key not in pod
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert own["readOnlyRootFilesystem"] is True
            assert "privileged" not in own


def test_only_the_head_of_a_cluster_that_scales_may_talk_to_kubernetes(documents) -> None:
    for cluster in clusters(documents):
        head = cluster["headGroupSpec"]["template"]["spec"]
        assert head["automountServiceAccountToken"] is cluster.get("enableInTreeAutoscaling", False)
        for group in cluster["workerGroupSpecs"]:
            assert group["template"]["spec"]["automountServiceAccountToken"] is False


def test_only_docker_boxes_get_folders_of_the_node() -> None:
    def of_node(name):
        volumes = [each for pod in pods(read(DEPLOY / "kubernetes" / name)) for each in pod["volumes"]]
        return sorted(each["name"] for each in volumes if "hostPath" in each)

    assert of_node("gvisor.yaml") == []
    assert of_node("docker.yaml") == ["engine", "state"]


def test_logs_of_image_builds_have_a_volume_that_every_runtime_makes_writable(monkeypatch) -> None:
    """CRI-O leaves the image's own volume read-only, like the rest of the root."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    logs = ContainerChoices().build_logs
    pod = pods(read(DEPLOY / "kubernetes" / "docker.yaml"))[1]
    (name,) = [
        each["name"] for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == str(logs)
    ]
    (volume,) = [each for each in pod["volumes"] if each["name"] == name]
    assert volume["emptyDir"]["sizeLimit"]


def test_pods_have_probes_and_time_to_drain(documents) -> None:
    for pod in pods(documents):
        assert pod["terminationGracePeriodSeconds"] >= 90
        assert all(container["livenessProbe"] for container in pod["containers"])
    (worker,) = clusters(documents)[-1]["workerGroupSpecs"][:1]
    assert worker["minReplicas"] <= worker["replicas"] <= worker["maxReplicas"]


def test_pods_of_the_service_take_the_variables_of_the_node(documents) -> None:
    cluster = documents["RayService", "sandbox"]["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["template"]["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
        (container,) = group["template"]["spec"]["containers"]
        assert "sandbox-service node-env --cluster " in container["args"][0]
        assert {"name": "RAY_worker_niceness", "value": "0"} in container["env"]
        assert container["args"][0].rstrip().endswith('"$KUBERAY_GEN_RAY_START_CMD"')


@pytest.mark.parametrize("ends_with", ["exit 1", "kill -KILL $$"], ids=["an error", "a kill"])
def test_ray_does_not_start_without_the_variables_of_its_node(documents, tmp_path, ends_with) -> None:
    """Without them it would require no token, on all interfaces."""
    command = tmp_path / "sandbox-service"
    command.write_text(f"#!/bin/sh\n{ends_with}\n")
    command.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "KUBERAY_GEN_RAY_START_CMD": "echo ray start"}
    cluster = documents["RayService", "sandbox"]["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        words = [*container["command"], *container["args"]]
        started = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert started.returncode != 0
        assert started.stdout == ""


def test_rays_metrics_leave_the_services_port_to_the_service(documents) -> None:
    """KubeRay gives them port 8080 where nothing else is set, which the policy opens to clients as well."""
    served = service(documents)["http_options"]["port"]
    for cluster in clusters(documents):
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            port = int(group["rayStartParams"]["metrics-export-port"])
            assert port != served
            (container,) = group["template"]["spec"]["containers"]
            ports = {each["name"]: each["containerPort"] for each in container["ports"]}
            assert ports["metrics"] == port, "KubeRay adds a port of this name with 8080 where it is missing"


def test_kuberay_finds_the_port_of_the_service_for_clients_in_the_head(documents) -> None:
    """It makes no such service where the head has no port of this name, though the head is not in it."""
    given = next(each for (kind, _), each in documents.items() if kind == "RayService")
    (container,) = given["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports["serve"] == service(documents)["http_options"]["port"]


def test_rays_object_store_fits_the_shared_memory_of_its_pod(documents) -> None:
    """An object store that does not fit is a file in /tmp, which Ray makes instead."""
    groups = [group for cluster in clusters(documents) for group in cluster["workerGroupSpecs"]]
    assert groups
    for group in groups:
        (memory,) = (
            volume["emptyDir"]["sizeLimit"]
            for volume in group["template"]["spec"]["volumes"]
            if volume["name"] == "shared-memory"
        )
        number, unit = re.fullmatch(r"(\d+)([MG]i)", memory).groups()
        held = int(number) * {"Mi": 2**20, "Gi": 2**30}[unit]
        assert 76 * 2**20 <= int(group["rayStartParams"]["object-store-memory"]) < held


def test_a_sandbox_pod_has_the_time_to_empty_itself(documents) -> None:
    deadline = ServiceConfig.model_validate(service(documents)["applications"][0]["args"]).deadline
    cluster = documents["RayService", "sandbox"]["spec"]["rayClusterConfig"]
    (worker,) = cluster["workerGroupSpecs"]
    pod = worker["template"]["spec"]
    assert "exec sandbox-service node --config" in pod["containers"][0]["args"][0]
    longest_s = deadline.node_drain_s + deadline.drain_s + deadline.release_s
    assert pod["terminationGracePeriodSeconds"] >= longest_s + 60


def test_a_cluster_that_was_replaced_gives_its_instances_up_at_once(documents) -> None:
    """Clients reach the new one only, and the head, by which supervisors are reached, ends after them."""
    spec = documents["RayService", "sandbox"]["spec"]
    deadline = ServiceConfig.model_validate(service(documents)["applications"][0]["args"]).deadline
    assert spec["rayClusterDeletionDelaySeconds"] <= 30
    head = spec["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
    _, seconds = head["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert deadline.drain_s + deadline.release_s < int(seconds) < head["terminationGracePeriodSeconds"] - 60


def test_kuberays_operator_reaches_the_dashboard_from_whatever_namespace(documents) -> None:
    """Guides install it in ``default``; its label is that of KubeRay's chart and of its manifests."""
    *_, operator = documents["NetworkPolicy", "sandbox"]["spec"]["ingress"]
    selector = {"matchLabels": {"app.kubernetes.io/component": "kuberay-operator"}}
    assert operator["from"] == [{"namespaceSelector": {}, "podSelector": selector}]
    assert 8265 in {each["port"] for each in operator["ports"]}


def test_policies_select_the_pods_and_open_only_the_api_to_clients(documents) -> None:
    policy = documents["NetworkPolicy", "sandbox"]["spec"]
    cluster = documents["RayService", "sandbox"]["spec"]["rayClusterConfig"]
    labels = cluster["workerGroupSpecs"][0]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    among_each_other, clients, _ = policy["ingress"]
    assert among_each_other["from"][0]["podSelector"] == policy["podSelector"]
    assert [each["port"] for each in clients["ports"]] == [8080]
    assert all(each["to"] for each in policy["egress"])
    budget = documents["PodDisruptionBudget", "sandbox-sandbox"]["spec"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()


def test_each_pod_that_is_always_there_has_a_gateway_and_so_can_be_ready(documents) -> None:
    """Serve has a front on nodes with a replica only, and a second one there would leave a pod without."""
    serve = service(documents)
    (application,) = serve["applications"]
    replicas = ServiceConfig.model_validate(application["args"]).server.replicas
    cluster = documents["RayService", "sandbox"]["spec"]["rayClusterConfig"]
    (group,) = cluster["workerGroupSpecs"]
    assert replicas == group["minReplicas" if cluster["enableInTreeAutoscaling"] else "replicas"]
    assert application["deployments"] == [{"name": "gateway", "max_replicas_per_node": 1}]


def test_one_ready_pod_may_be_evicted_at_a_time_and_never_the_head(documents) -> None:
    """Kubernetes accepts no ``maxUnavailable`` for pods whose owner cannot be scaled, as KubeRay's cannot."""
    config = ServiceConfig.model_validate(service(documents)["applications"][0]["args"])
    budget = documents["PodDisruptionBudget", "sandbox-sandbox"]["spec"]
    assert budget["minAvailable"] == config.server.replicas - 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    head = documents["PodDisruptionBudget", "sandbox-head"]["spec"]
    assert head["minAvailable"] > 1, "also beside the head of a new cluster"
    assert not any("maxUnavailable" in spec for spec in (budget, head))


def test_trainers_ask_for_gpus_and_heads_for_none() -> None:
    cluster = read(DEPLOY / "kubernetes" / "gvisor.yaml")["RayCluster", "sandbox-trainer"]["spec"]
    (worker,) = cluster["workerGroupSpecs"]
    limits = worker["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == worker["rayStartParams"]["num-gpus"] == "8"
    head = cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"]
    assert "nvidia.com/gpu" not in head["limits"]


def test_trainers_with_gpus_run_the_image_that_is_built_for_gpus() -> None:
    choice = choose(Machine(driver=None, local_torch=False, cpu_index=False), {"ENGINE": "vllm"})
    built = Recipe("trainer", choice).tag
    image = DEFAULTS["trainer"]["image"]
    assert DEFAULTS["trainer"]["gpus"]
    assert f"{image['repository']}:{image['tag']}" == built
    cluster = read(DEPLOY / "kubernetes" / "gvisor.yaml")["RayCluster", "sandbox-trainer"]["spec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        assert container["image"].endswith(f"/{built}")


@pytest.mark.parametrize(("kind", "boxes"), [("service", "docker"), ("gvisor", "gvisor")])
def test_pods_of_the_service_run_the_image_that_is_built_for_their_boxes(kind, boxes) -> None:
    cluster = read(DEPLOY / "kubernetes" / f"{boxes}.yaml")["RayService", "sandbox"]["spec"][
        "rayClusterConfig"
    ]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        assert container["image"].endswith(f"/{recipe_of(kind).tag}")


def test_the_image_for_gvisor_has_its_parts_where_the_chart_expects_them() -> None:
    recipe = (DEPLOY.parent / "docker" / "gvisor.Dockerfile").read_text()
    paths = DEFAULTS["boxes"]["gvisor"]
    assert f" {paths['runsc']}\n" in recipe
    assert f'"sandbox.gvisor_root={paths["root"]}"]' in recipe


def test_kuberay_knows_every_field(documents) -> None:
    for (kind, _), document in documents.items():
        if document["apiVersion"].startswith("ray.io/"):
            jsonschema.validate(document, {**KUBERAY, "$ref": f"#/$defs/{kind}"})
            document["spec"]["rayVersions"] = "2"
            with pytest.raises(jsonschema.ValidationError, match="rayVersions"):
                jsonschema.validate(document, {**KUBERAY, "$ref": f"#/$defs/{kind}"})


def test_the_page_names_the_release_of_kuberay_that_has_these_fields() -> None:
    page = (DEPLOY.parent / "docs" / "operations" / "kubernetes.md").read_text()
    assert f"{KUBERAY['x-kuberay']} or later" in page


def test_no_manifest_holds_a_password(documents) -> None:
    text = json.dumps(list(documents.values()))
    assert not re.search(r"postgresql\+psycopg://[^\"\\]", text)
    assert [name for kind, name in documents if kind == "Secret"] == ["sandbox-config"]


def test_the_defaults_of_the_chart_keep_its_schema_and_are_complete() -> None:
    jsonschema.validate(DEFAULTS, SCHEMA)
    assert DEFAULTS.keys() | {"global"} == SCHEMA["properties"].keys()


WRONG = {
    "an unknown name": {"replicas": 3},
    "process boxes, which may not serve other machines": {"boxes": {"kind": "process"}},
    "a key in place of its digest": {"config": {"server": {"api_keys": {"sk-secret": "team-a"}}}},
    "a setting that does not exist": {"config": {"pol": {"max_boxes": 4}}},
    "a setting of the wrong type": {"config": {"pool": {"max_boxes": "many"}}},
    "a setting out of its bounds": {"config": {"quota": {"box_share": 1.5}}},
    "an environment that does not exist": {"config": {"environments": {"enabled": ["code"], "cod": {}}}},
    "a budget in percent, which KubeRay's pods cannot have": {"disruptionBudget": {"maxUnavailable": "50%"}},
    "a right that does not exist": {
        "config": {"server": {"api_keys": {"0" * 64: {"tenant": "a", "rights": "no"}}}}
    },
    "a Ray without token authentication": {"rayVersion": "1.13.0"},
    "an unfiltered container by a typing error": {"boxes": {"gvisor": {"seccompProfile": {"type": "None"}}}},
    "a trainer's image without a tag": {"trainer": {"image": {"repository": "trainer", "tag": ""}}},
    "a quantity without a unit that Kubernetes knows": {"sandbox": {"sharedMemory": "512MB"}},
    "kilobytes as Kubernetes does not write them": {"sandbox": {"sharedMemory": "16K"}},
    "kibibytes as Kubernetes does not write them": {"sandbox": {"sharedMemory": "16ki"}},
    "no port": {"postgresql": {"port": 0}},
    "Redis without a port": {"ray": {"redis": {"address": "redis"}}},
    "Redis over TLS without a port": {"ray": {"redis": {"address": "rediss://redis"}}},
    "Redis by another protocol": {"ray": {"redis": {"address": "https://redis:6379"}}},
}


@pytest.mark.parametrize("values", WRONG.values(), ids=WRONG)
def test_wrong_values_are_refused(values) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, SCHEMA)


@pytest.mark.parametrize("scheme", ["", "redis://", "rediss://"])
def test_redis_may_be_named_with_its_protocol(scheme) -> None:
    jsonschema.validate({"ray": {"redis": {"address": f"{scheme}redis.sandbox.svc:6379"}}}, SCHEMA)


@pytest.mark.parametrize("quantity", ["1", "0.5", "500m", "16k", "16M", "16G", "1T", "16Ki", "1.5Gi", "1Ti"])
def test_quantities_that_kubernetes_knows_are_accepted(quantity) -> None:
    jsonschema.validate({"sandbox": {"resources": {"limits": {"memory": quantity}}}}, SCHEMA)


def test_the_schema_has_the_settings_of_the_service() -> None:
    text = (CHART / "values.schema.json").read_text()
    assert text == with_settings(text), "python -m scripts.chart_schema"


def test_settings_that_the_service_takes_are_accepted() -> None:
    config = {
        "pool": {"max_boxes": 4},
        "pools": {"code": {"max_boxes": None}},
        "deadline": {"step_s": 90.5, "agent_s": 3600},
        "environments": {"enabled": ["code"], "code": {"task_files": ["/srv/tasks.jsonl"]}},
    }
    ServiceConfig.model_validate(config)
    jsonschema.validate({"config": config}, SCHEMA)


def test_a_key_may_be_read_only() -> None:
    keys = {"0" * 64: {"tenant": "team-a", "rights": "read"}, "1" * 64: "team-a"}
    jsonschema.validate({"config": {"server": {"api_keys": keys}}}, SCHEMA)


def test_the_chart_and_its_image_are_of_one_release() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    assert chart["appVersion"] == project["project"]["version"]
    assert DEFAULTS["image"]["tag"] == "", "the release's, by the kind of boxes"
    pins = project["project"]["optional-dependencies"]["service"]
    assert f"ray[serve]=={DEFAULTS['rayVersion']}" in pins
