package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// configured is the JSON output of flowctl config.
type configured struct {
	Settings []struct{ Name, Value, Source, From string }
	Problems []string
}

// setting returns value, source and origin of a variable.
func (c configured) setting(name string) string {
	for _, s := range c.Settings {
		if s.Name == name {
			return strings.TrimSpace(s.Value + " " + s.Source + " " + s.From)
		}
	}
	return "missing"
}

func TestOPS6_ConfigPrintsEachValueAndItsSource(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hunter4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FLOWGEN_STORE", "redis://ada:hunter2@host:6379/0?sentinel_password=hunter3")
	t.Setenv("FLOWGEN_TOKEN_FILE", token)
	t.Setenv("FLOWGEN_WORKER_GRACE", "2m")
	for _, tt := range []struct {
		flags []string
		want  map[string]string
	}{
		{nil, map[string]string{
			"FLOWGEN_STORE":        "redis://ada:xxxxx@host:6379/0?sentinel_password=xxxxx variable",
			"FLOWGEN_TOKEN":        "****** file " + token,
			"FLOWGEN_SERVER":       "default",
			"FLOWGEN_JOURNAL_MOST": "100000 default", "FLOWGEN_JOURNAL_FOR": "8760h default",
			"FLOWGEN_WORKER_GRACE": "2m variable", "FLOWGEN_WORKER_CONCURRENCY": "256 default", "FLOWGEN_CLIENT_MAX_PAYLOAD": "2MiB default",
			"FLOWGEN_WORKER_QUEUES": "default",
		}},
		{[]string{"--server", "https://ada:hunter5@flows.example.com", "--token-file", "other", "--journal-most", "7"}, map[string]string{
			"FLOWGEN_STORE":        "default",
			"FLOWGEN_SERVER":       "https://ada:xxxxx@flows.example.com flag --server",
			"FLOWGEN_TOKEN":        "****** flag --token-file other",
			"FLOWGEN_JOURNAL_MOST": "7 flag --journal-most",
			"FLOWGEN_WORKER_GRACE": "2m variable",
		}},
	} {
		g := flowctl(t, append(tt.flags, "config", "--json")...)
		var got configured
		if err := json.Unmarshal([]byte(g.stdout), &got); err != nil || g.code != 0 || len(got.Problems) > 0 {
			t.Fatalf("%v\n%+v", err, g)
		}
		for name, want := range tt.want {
			if got := got.setting(name); got != want {
				t.Errorf("%v: %s is %q, want %q", tt.flags, name, got, want)
			}
		}
		text := flowctl(t, append(tt.flags, "config")...)
		for _, all := range []string{g.stdout, text.stdout, text.stderr} {
			if strings.Contains(all, "hunter") {
				t.Errorf("a secret is printed:\n%s", all)
			}
		}
		if !strings.Contains(text.stdout, "FLOWGEN_WORKER_CONCURRENCY") || text.code != 0 {
			t.Errorf("as text: %+v", text)
		}
	}
}

func TestOPS6_ConfigReportsWhatOtherCommandsRefuse(t *testing.T) {
	problems := func(want ...string) {
		t.Helper()
		g := flowctl(t, "config", "--json")
		var got configured
		if err := json.Unmarshal([]byte(g.stdout), &got); err != nil || g.code != 7 {
			t.Fatalf("%v, want JSON and the exit code 7\n%+v", err, g)
		}
		if len(got.Problems) != len(want) {
			t.Fatalf("%d problems, want %d: %q", len(got.Problems), len(want), got.Problems)
		}
		for i, want := range want {
			if !strings.Contains(got.Problems[i], want) {
				t.Errorf("problem %q, want %q", got.Problems[i], want)
			}
		}
	}
	t.Setenv("FLOWGEN_STORE", "sqlite:orders.db")
	t.Setenv("FLOWGEN_STORE_PASSWORD", "hunter2")
	t.Setenv("FLOWGEN_WORKER_HEARTBEAT", "20s")
	problems("FLOWGEN_STORE cannot take the password", "FLOWGEN_WORKER_CLAIM_EXPIRY is 30s while FLOWGEN_WORKER_HEARTBEAT is 20s")
	if g := flowctl(t, "runs"); g.code != 2 || !strings.Contains(g.stderr, "FLOWGEN_STORE cannot take the password") {
		t.Errorf("runs: %+v, want the exit code 2 and the error", g)
	}
	t.Setenv("FLOWGEN_WORKER_CONCURENCY", "8")
	t.Setenv("FLOWGEN_JOURNAL_FOR", "a year")
	problems(`FLOWGEN_JOURNAL_FOR is "a year"`, "did you mean FLOWGEN_WORKER_CONCURRENCY?")
	if g := flowctl(t, "runs"); g.code != 2 || !strings.Contains(g.stderr, "did you mean FLOWGEN_WORKER_CONCURRENCY?") || !strings.Contains(g.stderr, "a year") {
		t.Errorf("runs: %+v, want the exit code 2 and both errors", g)
	}
}

// The test proves that flowctl uses the same location as store.OpenFromEnv.
func TestOPS6_TheStoreOfTheEnvironmentIsUsedUnlessAFlagIsGiven(t *testing.T) {
	s, other := open(t), open(t)
	file := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(file, []byte(s.url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FLOWGEN_STORE_FILE", file)
	if g := flowctl(t, "runs", "-o", "name"); g.code != 0 || !strings.Contains(g.stdout, s.runs["good"]) {
		t.Errorf("without a flag: %+v, want the runs of the environment's store", g)
	}
	if g := other.flowctl("runs", "-o", "name"); g.code != 0 || strings.Contains(g.stdout, s.runs["good"]) || !strings.Contains(g.stdout, other.runs["good"]) {
		t.Errorf("with --store: %+v, want the runs of that store", g)
	}
}
