package environ_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/environ"
)

// config has a field of each form. The names of its variables are known.
type config struct {
	Queues   []string       `env:"FLOWGEN_WORKER_QUEUES"`
	Runs     int            `env:"FLOWGEN_WORKER_RUNS" default:"7"`
	Size     int            `env:"FLOWGEN_CLIENT_MAX_PAYLOAD" default:"2MiB" form:"size"`
	Grace    time.Duration  `env:"FLOWGEN_WORKER_GRACE" default:"10s"`
	Capacity map[string]int `env:"FLOWGEN_WORKER_CAPACITY"`
	Without  bool           `env:"FLOWGEN_WORKER_NO_LOCAL_START" default:"false"`
	Name     string         `env:"FLOWGEN_WORKER_NAME"`
	URL      string         `env:"FLOWGEN_STORE" secret:"url"`
	Password string         `env:"FLOWGEN_STORE_PASSWORD" secret:"yes"`
	Other    *config        // not read
	Ignored  string
}

// load loads a config from an environment with these variables only.
func load(t *testing.T, vars map[string]string) (config, error) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "FLOWGEN_") {
			t.Setenv(name, value) // restores the variable after the test
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, value := range vars {
		t.Setenv(name, value)
	}
	var c config
	err := environ.Load(&c)
	return c, err
}

func TestOPS6_EachFormIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(" a b \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, map[string]string{
		"FLOWGEN_WORKER_QUEUES": " mail, gpu,,", "FLOWGEN_WORKER_RUNS": " 12\n", "FLOWGEN_CLIENT_MAX_PAYLOAD": "3 MiB",
		"FLOWGEN_WORKER_GRACE": "1m30s", "FLOWGEN_WORKER_CAPACITY": "gpu = 2, mail=0", "FLOWGEN_WORKER_NO_LOCAL_START": "true",
		"FLOWGEN_WORKER_NAME": " one two ", "FLOWGEN_STORE": " redis://host\n", "FLOWGEN_STORE_PASSWORD_FILE": file,
	})
	want := config{
		Queues: []string{"mail", "gpu"}, Runs: 12, Size: 3 << 20, Grace: 90 * time.Second, Capacity: map[string]int{"gpu": 2, "mail": 0},
		Without: true, Name: "one two", URL: "redis://host", Password: " a b ",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestOPS6_AnUnsetOrEmptyVariableLeavesTheFieldZero(t *testing.T) {
	empty := map[string]string{}
	for _, name := range environ.Names() {
		empty[name] = ""
	}
	empty["FLOWGEN_STORE_PASSWORD_FILE"] = ""
	for _, vars := range []map[string]string{nil, empty} {
		got, err := load(t, vars)
		if diff := cmp.Diff(config{}, got); diff != "" || err != nil {
			t.Errorf("%d variables: error %v (-want +got):\n%s", len(vars), err, diff)
		}
	}
}

func TestOPS6_AnInvalidValueIsNamedWithItsVariableAndForm(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, value, form string }{
		{"FLOWGEN_WORKER_RUNS", "many", "a whole number"},
		{"FLOWGEN_WORKER_RUNS", "0", "at least 1"},
		{"FLOWGEN_WORKER_RUNS", "-3", "at least 1"},
		{"FLOWGEN_WORKER_RUNS", "1.5", "a whole number"},
		{"FLOWGEN_WORKER_RUNS", "99999999999999999999", "a whole number"},
		{"FLOWGEN_WORKER_RUNS", "2KiB", "a whole number"},
		{"FLOWGEN_CLIENT_MAX_PAYLOAD", "2 megabytes", "such as 2MiB"},
		{"FLOWGEN_CLIENT_MAX_PAYLOAD", "-1MB", "such as 2MiB"},
		{"FLOWGEN_CLIENT_MAX_PAYLOAD", "99999999999GiB", "such as 2MiB"},
		{"FLOWGEN_CLIENT_MAX_PAYLOAD", "MB", "such as 2MiB"},
		{"FLOWGEN_WORKER_GRACE", "10", "a duration"},
		{"FLOWGEN_WORKER_GRACE", "0s", "above zero"},
		{"FLOWGEN_WORKER_CAPACITY", "gpu", "gpu=2"},
		{"FLOWGEN_WORKER_CAPACITY", "gpu=2,gpu=3", "distinct names"},
		{"FLOWGEN_WORKER_CAPACITY", "=2", "gpu=2"},
		{"FLOWGEN_WORKER_CAPACITY", "gpu=-1", "at least 0"},
		{"FLOWGEN_WORKER_CAPACITY", ",", "gpu=2"},
		{"FLOWGEN_WORKER_QUEUES", ",", "separated by commas"},
		{"FLOWGEN_WORKER_NO_LOCAL_START", "yes", "true or false"},
		{"FLOWGEN_STORE_PASSWORD_FILE", missing, "path of a file"},
		{"FLOWGEN_STORE_PASSWORD_FILE", empty, "path of a file"},
		{"FLOWGEN_STORE_PASSWORD_FILE", t.TempDir(), "path of a file"},
	} {
		t.Run(tt.name+" "+filepath.Base(tt.value), func(t *testing.T) {
			got, err := load(t, map[string]string{tt.name: tt.value, "FLOWGEN_WORKER_NAME": "one"})
			e, ok := errors.AsType[*environ.ValueError](err)
			if !ok || e.Name != tt.name || e.Value != tt.value || !strings.Contains(e.Want, tt.form) || !strings.Contains(err.Error(), tt.name) || !strings.Contains(err.Error(), tt.value) {
				t.Errorf("got %#v (%v), want the variable, the value and %q", e, err, tt.form)
			}
			if got.Runs != 0 || got.Size != 0 || got.Grace != 0 || got.Capacity != nil || got.Queues != nil {
				t.Errorf("got %+v, want no value", got)
			}
		})
	}
}

func TestOPS6_ASecretIsGivenOnceAndNotShown(t *testing.T) {
	t.Setenv("FLOWGEN_TOKEN", "hunter1")
	var pin struct {
		Pin int `env:"FLOWGEN_TOKEN" secret:"yes"`
	}
	if e, ok := errors.AsType[*environ.ValueError](environ.Load(&pin)); !ok || e.Name != "FLOWGEN_TOKEN" || strings.Contains(fmt.Sprintf("%+v", *e), "hunter") {
		t.Errorf("got %+v, want an error without the secret", e)
	}
	_, err := load(t, map[string]string{"FLOWGEN_STORE_PASSWORD": "hunter2", "FLOWGEN_STORE_PASSWORD_FILE": "/run/secrets/password"})
	if e, ok := errors.AsType[*environ.ValueError](err); !ok || e.Name != "FLOWGEN_STORE_PASSWORD" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want an error about both variables without the password", err)
	}
}

func TestOPS6_AnUnknownVariableIsReportedWithTheNearestKnownOne(t *testing.T) {
	for name, want := range map[string]string{
		"FLOWGEN_WORKER_CONCURENCY": "FLOWGEN_WORKER_CONCURRENCY",
		"FLOWGEN_CONCURRENCY":       "FLOWGEN_WORKER_CONCURRENCY",
		"FLOWGEN_STROE":             "FLOWGEN_STORE",
		"FLOWGEN_STORE_PASSWORT":    "FLOWGEN_STORE_PASSWORD",
		"FLOWGEN_STORE_FILES":       "FLOWGEN_STORE_FILE",
		"FLOWGEN_WORKER_NAME_FILE":  "",
		"FLOWGEN_QUANTUM":           "",
		"FLOWGEN_":                  "",
		"FLOWGEN_PORT":              "",
		"FLOWGEN_WORKER_grace":      "FLOWGEN_WORKER_GRACE",
	} {
		_, err := load(t, map[string]string{name: "7070"})
		e, ok := errors.AsType[*environ.UnknownError](err)
		if !ok || e.Name != name || e.Nearest != want || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %#v, want the nearest name %q", name, e, want)
		}
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOPS6_AllProblemsAreReportedAtOnce(t *testing.T) {
	_, err := load(t, map[string]string{"FLOWGEN_STROE": "x", "FLOWGEN_FOO": "x", "FLOWGEN_WORKER_RUNS": "x", "FLOWGEN_CLIENT_MAX_PAYLOAD": "x", "FLOWGEN_STORE_PASSWORD_FILE": "x"})
	for _, name := range []string{"FLOWGEN_STROE", "FLOWGEN_FOO", "FLOWGEN_WORKER_RUNS", "FLOWGEN_CLIENT_MAX_PAYLOAD", "FLOWGEN_STORE_PASSWORD_FILE"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error that names %s", err, name)
		}
	}
}

// The variables are those that Kubernetes sets for Services with the names flowgen, flowgen-store
// and flowgen-worker.
func TestOPS6_TheServiceLinksOfKubernetesAreIgnored(t *testing.T) {
	links := map[string]string{}
	for _, service := range []string{"FLOWGEN", "FLOWGEN_STORE", "FLOWGEN_WORKER"} {
		for name, value := range map[string]string{
			"_SERVICE_HOST": "10.0.0.11", "_SERVICE_PORT": "7070", "_SERVICE_PORT_HTTP": "7070", "_PORT": "tcp://10.0.0.11:7070",
			"_PORT_7070_TCP": "tcp://10.0.0.11:7070", "_PORT_7070_TCP_PROTO": "tcp", "_PORT_7070_TCP_PORT": "7070", "_PORT_7070_TCP_ADDR": "10.0.0.11",
			"_PORT_53_UDP": "udp://10.0.0.11:53",
		} {
			links[service+name] = value
		}
	}
	if got, err := load(t, links); err != nil || got.URL != "" {
		t.Errorf("got %+v, %v, want no error and no value", got, err)
	}
}

func TestOPS6_DefaultsReplaceWhatIsNotPositive(t *testing.T) {
	for given, want := range map[*config]config{
		{}:                              {Runs: 7, Size: 2 << 20, Grace: 10 * time.Second},
		{Runs: -1, Size: -1, Grace: -1}: {Runs: 7, Size: 2 << 20, Grace: 10 * time.Second},
		{Runs: 1, Size: math.MaxInt, Grace: 1, Without: true}: {Runs: 1, Size: math.MaxInt, Grace: 1, Without: true},
	} {
		given.Other = given // SetDefaults must not follow pointers.
		environ.SetDefaults(given)
		given.Other = nil
		if diff := cmp.Diff(want, *given); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestHidePassword_ShowsNoPartOfAPassword(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:orders.db":                                               "sqlite:orders.db",
		"sqlite:/var/lib/orders.db":                                      "sqlite:/var/lib/orders.db",
		"redis://host:6379/0?prefix=a":                                   "redis://host:6379/0?prefix=a",
		"redis://ada:hunter2@host:6379/0":                                "redis://ada:xxxxx@host:6379/0",
		"redis+sentinel://h:1/0?master_name=m&sentinel_password=hunter2": "redis+sentinel://h:1/0?master_name=m&sentinel_password=xxxxx",
		"redis://ada:hunter2/@host:6379/0":                               "******",
		"redis://ada:17#hunter2@host":                                    "******",
		"ada:hunter2@host":                                               "******",
		"redis://ada:hun%ter2@host":                                      "******",
		"redis://host?password=hunter2;a=%zz":                            "******",
	} {
		if got := environ.HidePassword(url); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}
