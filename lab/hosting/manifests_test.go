package hosting

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flowgen/flowgen/runtime/health"
	"github.com/flowgen/flowgen/runtime/worker"
)

const manifests = "../../docs/kubernetes"

// scaledObject contains the fields of a ScaledObject that the tests use.
type scaledObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef  struct{ Name string }
		CooldownPeriod  int64
		MinReplicaCount int
		Triggers        []trigger
	}
}

type trigger struct {
	Type              string
	Metadata          map[string]string
	AuthenticationRef struct{ Name string }
}

type triggerAuthentication struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretTargetRef []struct{ Parameter, Name, Key string }
	}
}

// objects are the objects of the manifests.
type objects struct {
	deployment appsv1.Deployment
	budget     policyv1.PodDisruptionBudget
	secrets    map[string]corev1.Secret
	scaled     scaledObject
	auth       triggerAuthentication
}

// decode adds the object of a document, after it was validated. It returns the kind of the object.
func (o *objects) decode(document []byte) (kind string, err error) {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(document, &meta); err != nil {
		return "", err
	}
	switch kind = meta.APIVersion + " " + meta.Kind; kind {
	case "apps/v1 Deployment":
		return kind, yaml.UnmarshalStrict(document, &o.deployment)
	case "policy/v1 PodDisruptionBudget":
		return kind, yaml.UnmarshalStrict(document, &o.budget)
	case "v1 Secret":
		var s corev1.Secret
		err := yaml.UnmarshalStrict(document, &s)
		if o.secrets == nil {
			o.secrets = map[string]corev1.Secret{}
		}
		o.secrets[s.Name] = s
		return kind, err
	case "keda.sh/v1alpha1 ScaledObject":
		if err := conforms(document, "scaledobjects"); err != nil {
			return kind, err
		}
		err := yaml.Unmarshal(document, &o.scaled)
		return kind, errors.Join(err, checkTriggers(o.scaled.Spec.Triggers))
	case "keda.sh/v1alpha1 TriggerAuthentication":
		return kind, errors.Join(conforms(document, "triggerauthentications"), yaml.Unmarshal(document, &o.auth))
	}
	return kind, fmt.Errorf("unknown kind %q", kind)
}

// conforms returns an error if a document does not conform to the schema of a custom resource, or
// has a field that the schema does not contain, which a server would drop.
func conforms(document []byte, resource string) error {
	text, err := os.ReadFile(filepath.Join("testdata", "keda.sh_"+resource+".yaml"))
	if err != nil {
		return err
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return err
	}
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	root["properties"].(map[string]any)["metadata"].(map[string]any)["properties"] = map[string]any{"name": map[string]any{"type": "string"}}
	forbidUnknown(root)
	c := jsonschema.NewCompiler()
	if err := c.AddResource("crd.json", numbers(root)); err != nil {
		return err
	}
	schema, err := c.Compile("crd.json")
	if err != nil {
		return err
	}
	var value any
	if err := yaml.UnmarshalStrict(document, &value); err != nil {
		return err
	}
	return schema.Validate(numbers(value))
}

// forbidUnknown makes a schema reject fields that it does not contain.
func forbidUnknown(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	if properties != nil && schema["x-kubernetes-preserve-unknown-fields"] == nil {
		schema["additionalProperties"] = false
	}
	for _, p := range properties {
		forbidUnknown(p.(map[string]any))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if s, ok := schema[key].(map[string]any); ok {
			forbidUnknown(s)
		}
	}
}

// numbers returns a value with the numbers that package jsonschema expects.
func numbers(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	v, err = jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	return v
}

// parameters are the fields of a metrics-api trigger, from the tags in pkg/scalers of KEDA 2.21:
// metrics_api_scaler.go and authentication/authentication_types.go. The schema of a ScaledObject
// permits any field here.
var parameters = []string{
	"targetValue", "activationTargetValue", "url", "format", "valueLocation", "unsafeSsl", "aggregateFromKubeServiceEndpoints", "aggregationType", "timeout",
	"authModes", "authMode", "method", "keyParamName", "apiKey",
}

func checkTriggers(all []trigger) error {
	for _, t := range all {
		if t.Type != "metrics-api" {
			return fmt.Errorf("trigger of type %q", t.Type)
		}
		for key := range t.Metadata {
			if !slices.Contains(parameters, key) {
				return fmt.Errorf("a metrics-api trigger has no field %q", key)
			}
		}
		for _, key := range []string{"url", "valueLocation", "targetValue"} {
			if t.Metadata[key] == "" {
				return fmt.Errorf("a metrics-api trigger needs the field %q", key)
			}
		}
	}
	return nil
}

// documents returns the documents of a manifest.
func documents(text []byte) [][]byte { return bytes.Split(text, []byte("\n---\n")) }

func readManifests(t *testing.T) (o objects, kinds map[string]int) {
	t.Helper()
	kinds = map[string]int{}
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d manifests, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range documents(text) {
			kind, err := o.decode(d)
			if err != nil {
				t.Fatalf("%s, document %d, %s: %v", filepath.Base(file), i+1, kind, err)
			}
			kinds[kind]++
		}
	}
	return o, kinds
}

// TestOPS7_ManifestsConformToTheirSchemas proves that the manifests have no fields that Kubernetes or
// KEDA does not know, and that their values have the right types.
func TestOPS7_ManifestsConformToTheirSchemas(t *testing.T) {
	_, kinds := readManifests(t)
	for kind, want := range map[string]int{
		"apps/v1 Deployment": 1, "policy/v1 PodDisruptionBudget": 1, "v1 Secret": 2, "keda.sh/v1alpha1 ScaledObject": 1, "keda.sh/v1alpha1 TriggerAuthentication": 1,
	} {
		if kinds[kind] != want {
			t.Errorf("%d objects of kind %s, want %d", kinds[kind], kind, want)
		}
	}
}

// TestOPS7_SchemasRejectMistakes proves that the validation of manifests finds mistakes in each kind
// of object.
func TestOPS7_SchemasRejectMistakes(t *testing.T) {
	for _, tt := range []struct{ file, right, wrong string }{
		{"worker.yaml", "livenessProbe", "livenesProbe"},
		{"worker.yaml", "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 30s"},
		{"worker.yaml", "path: /livez", "url: /livez"},
		{"worker.yaml", "secretName: orders", "name: orders"},
		{"worker.yaml", "unhealthyPodEvictionPolicy", "unhealthyPodsEvictionPolicy"},
		{"worker.yaml", "stringData", "stringsData"},
		{"worker.yaml", "policy/v1", "policy/v1beta1"},
		{"keda.yaml", "minReplicaCount: 0", "minReplicas: 0"},
		{"keda.yaml", "maxReplicaCount: 20", `maxReplicaCount: "20"`},
		{"keda.yaml", "triggers:", "trigger:"},
		{"keda.yaml", "type: metrics-api", "kind: metrics-api"},
		{"keda.yaml", "targetValue: \"10\"", "targetValue: 10"},
		{"keda.yaml", "valueLocation: ready", "valuelocation: ready"},
		{"keda.yaml", "authenticationRef", "authRef"},
		{"keda.yaml", "parameter: token", "param: token"},
		{"keda.yaml", "cooldownPeriod", "coolDownPeriod"},
	} {
		text, err := os.ReadFile(filepath.Join(manifests, tt.file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), tt.right) {
			t.Errorf("%s does not contain %q", tt.file, tt.right)
			continue
		}
		var o objects
		found := false
		for _, d := range documents([]byte(strings.Replace(string(text), tt.right, tt.wrong, 1))) {
			_, err := o.decode(d)
			found = found || err != nil
		}
		if !found {
			t.Errorf("%s: %q instead of %q is not found", tt.file, tt.wrong, tt.right)
		}
	}
}

// TestOPS7_ManifestsFitTheWorker proves that the objects refer to each other, that the probes use the
// paths of package health, that the Secret contains the file that the variable names, and that
// Kubernetes waits for the stop of a worker.
func TestOPS7_ManifestsFitTheWorker(t *testing.T) {
	o, _ := readManifests(t)
	pod := o.deployment.Spec.Template
	selector := o.deployment.Spec.Selector.MatchLabels
	for what, labels := range map[string]map[string]string{"pods": pod.Labels, "budget": o.budget.Spec.Selector.MatchLabels} {
		if fmt.Sprint(labels) != fmt.Sprint(selector) {
			t.Errorf("labels of the %s: got %v, want %v", what, labels, selector)
		}
	}
	if o.scaled.Spec.ScaleTargetRef.Name != o.deployment.Name {
		t.Errorf("KEDA scales %q", o.scaled.Spec.ScaleTargetRef.Name)
	}
	c := pod.Spec.Containers[0]
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = v.Value
	}
	grace, err := time.ParseDuration(env["FLOWGEN_WORKER_GRACE"])
	if err != nil {
		t.Fatal(err)
	}
	// docs/use/hosting.md promises 15 s after Grace, and 5 s for the rest of main.
	if got, want := time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second, grace+20*time.Second; got < want {
		t.Errorf("Kubernetes waits %v for the end of a worker, want %v", got, want)
	}
	if got := time.Duration(o.scaled.Spec.CooldownPeriod) * time.Second; got <= time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second {
		t.Errorf("the cooldown period %v is shorter than a stop", got)
	}
	for path, probe := range map[string]*corev1.Probe{health.Live: c.LivenessProbe, health.Ready: c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
			t.Errorf("probe of %s: got %+v", path, probe.HTTPGet)
		}
	}
	// A loop that is stuck for StuckAfter is restarted; a pause shorter than the bound is not.
	if bound := time.Duration(c.LivenessProbe.PeriodSeconds*c.LivenessProbe.FailureThreshold) * time.Second; bound < worker.StuckAfter {
		t.Errorf("Kubernetes restarts a process that does not answer for %v", bound)
	}
	dir, key := filepath.Split(env["FLOWGEN_STORE_FILE"])
	mount := c.VolumeMounts[0]
	volume := pod.Spec.Volumes[0]
	if filepath.Clean(dir) != mount.MountPath || volume.Name != mount.Name || o.secrets[volume.Secret.SecretName].StringData[key] == "" {
		t.Errorf("FLOWGEN_STORE_FILE=%s is not in %+v of %+v", env["FLOWGEN_STORE_FILE"], mount, volume)
	}
	for _, ref := range o.auth.Spec.SecretTargetRef {
		if ref.Parameter != "token" || o.secrets[ref.Name].StringData[ref.Key] == "" {
			t.Errorf("the secret of KEDA is not in %+v", ref)
		}
	}
}
