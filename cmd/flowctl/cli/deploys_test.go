package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// workOn executes f while a worker of a build executes runs of a workflow that receive messages of
// their topic until one of them is "end".
func (s *shop) workOn(build string, f func(ctx context.Context, c *workflow.Client, d workflow.Definition[string, int], topic workflow.Topic[string])) {
	s.t.Helper()
	d, topic := shim.NewWorkflow[string, int]("deploying", "in", shim.WorkflowPolicy{}), workflow.NewTopic[string]("words")
	s.look(func(ctx context.Context, c *workflow.Client) {
		w := worker.New(c, worker.Config{Build: build, Name: "worker-" + build})
		shim.BindWorkflow(w, d, func(ctx workflow.Context, _ string) (int, error) {
			for n := 0; ; n++ {
				if word, err := topic.Receive(ctx); err != nil || word == "end" {
					return n, err
				}
			}
		})
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		f(ctx, c, d, topic)
		stop()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
}

// waits waits until a run waits for a message after it has received n of them.
func (s *shop) waits(ctx context.Context, c *workflow.Client, run workflow.RunID, n uint64) {
	s.t.Helper()
	for {
		info, err := c.Run(run).Info(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if info.Status == workflow.StatusWaiting && info.Events >= 3+2*n {
			return
		}
	}
}

// claims waits until a worker of the build claims runs.
func (s *shop) claims(ctx context.Context, build string) {
	s.t.Helper()
	for s.flowctl("deploys", "drained", build).code != 1 {
		if ctx.Err() != nil {
			s.t.Fatal("no worker of the build claims runs")
		}
	}
}

func TestOPS10_FlowctlDeploys_AnswersWhetherABuildCanBeRemoved(t *testing.T) {
	s := &shop{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "runs.db")}
	s.workOn("v0", func(ctx context.Context, _ *workflow.Client, _ workflow.Definition[string, int], _ workflow.Topic[string]) {
		s.claims(ctx, "v0")
	})
	s.wants(0, []string{"v0: drained"}, nil, "deploys", "drained", "v0")
	var run workflow.RunID
	s.workOn("v1", func(ctx context.Context, c *workflow.Client, d workflow.Definition[string, int], _ workflow.Topic[string]) {
		started, err := d.Start(ctx, c, "")
		if err != nil {
			s.t.Fatal(err)
		}
		run = started.ID()
		s.waits(ctx, c, run, 0)
		s.wants(1, []string{"v1: needed", "1 worker of the build claims runs"}, nil, "deploys", "drained", "v1")
		s.wants(4, nil, []string{"only build with live workers"}, "deploys", "retire", "v1")
	})
	s.wants(1, []string{"v1: needed: 1 open run needs the build", string(run), "the build has executed it last"}, nil, "deploys", "drained", "v1")
	s.wants(9, []string{`"answer": "unknown"`, "1 open run may need the build"}, nil, "deploys", "drained", "v0", "--json")
	s.wants(0, []string{"v1", "gone"}, nil, "deploys")
	s.workOn("v2", func(ctx context.Context, c *workflow.Client, d workflow.Definition[string, int], topic workflow.Topic[string]) {
		if err := topic.Send(ctx, d.Get(c, run), "one"); err != nil {
			s.t.Fatal(err)
		}
		s.waits(ctx, c, run, 1)
		s.wants(0, []string{"v1: drained"}, nil, "deploys", "drained", "v1")
		s.wants(0, []string{"v2: 100 %"}, nil, "deploys", "ramp", "v2=100", "--reason", "all of it")
		s.wants(0, []string{"v1: retired"}, []string{"deploys drained v1"}, "deploys", "retire", "v1", "--to", "v2")
		s.wants(0, []string{"v1: unretired"}, nil, "deploys", "unretire", "v1")
		s.wants(0, []string{"v1: 95 %", "v2: 5 %"}, nil, "deploys", "ramp", "v2=5%", "v1=95")
		s.wants(0, []string{"no distribution"}, nil, "deploys", "ramp", "--reset")
		s.wants(0, []string{"ramp", "all of it", "deploy:v1"}, nil, "journal", "-o", "wide")
		var all admin.Deploys
		if g := s.flowctl("deploys", "list", "--json"); json.Unmarshal([]byte(g.stdout), &all) != nil || len(all.Builds) != 3 || all.Builds[0].Build != "v2" || all.Builds[0].Workers[0] != "worker-v2" || all.Builds[0].Needs != 1 {
			t.Errorf("list: got %+v", g)
		}
	})
}

func TestOPS10_FlowctlDeploys_ReportsInvalidInputWithTheFix(t *testing.T) {
	s := &shop{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "runs.db")}
	s.workOn("v1", func(ctx context.Context, _ *workflow.Client, _ workflow.Definition[string, int], _ workflow.Topic[string]) {
		s.claims(ctx, "v1")
		s.wants(3, nil, []string{`build "v9" is unknown`, "known builds are v1"}, "deploys", "ramp", "v9=100")
		s.wants(3, nil, []string{`build "v9" is unknown`, "known builds are v1"}, "deploys", "drained", "v9")
		s.wants(2, nil, []string{`"110" is not from 0 to 100`}, "deploys", "ramp", "v1=110")
		s.wants(2, nil, []string{`"40" is not 100`, "the other 60"}, "deploys", "ramp", "v1=40")
		s.wants(2, nil, []string{"such as v2=5"}, "deploys", "ramp", "v1")
		s.wants(2, nil, []string{"such as v2=5"}, "deploys", "ramp", "v1=50", "v1=50")
		s.wants(2, nil, []string{"--reset"}, "deploys", "ramp")
	})
}

// TestOPS10_TheWorkerOfServeIsNoDeployment proves that flowctl serve, which executes bulk actions,
// is not one of the builds between which runs are distributed, and that a request without
// percentages does not remove the distribution.
func TestOPS10_TheWorkerOfServeIsNoDeployment(t *testing.T) {
	s := &shop{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "runs.db")}
	s.workOn("v1", func(ctx context.Context, _ *workflow.Client, _ workflow.Definition[string, int], _ workflow.Topic[string]) {
		s.claims(ctx, "v1")
		p := s.serve("127.0.0.1:0")
		for !strings.Contains(s.flowctl("queues").stdout, "flowgen.bulk") {
			if ctx.Err() != nil {
				t.Fatal("the server has no worker")
			}
		}
		var all admin.Deploys
		if g := s.flowctl("deploys", "--json"); json.Unmarshal([]byte(g.stdout), &all) != nil || len(all.Builds) != 1 {
			t.Errorf("list: got %+v, want one build", g)
		}
		s.wants(4, nil, []string{"only build with live workers"}, "deploys", "retire", "v1")
		s.wants(0, []string{"v1: 100 %"}, nil, "deploys", "ramp", "v1=100")
		answer, err := http.Post(p.url+"/v1/deploys/ramp", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "percent is missing") {
			t.Errorf("ramp without percentages: got %d %s", answer.StatusCode, body)
		}
		s.wants(0, []string{"100"}, nil, "deploys")
		s.wants(0, []string{"no distribution"}, nil, "deploys", "ramp", "--reset", "--server", p.url, "--store", "")
	})
}

// The page of a run has two builds: the one to which it is pinned, and the one of the program that
// has started it.
func TestOPS10_ShowNamesTheBuildsOfARun(t *testing.T) {
	s := open(t)
	var id string
	s.look(func(ctx context.Context, c *workflow.Client) {
		flow := shim.NewWorkflow[int, int]("shop.pinned", "n", shim.WorkflowPolicy{Pin: true})
		session := store.Session{ID: "blue", Worker: "pretended", TTL: time.Hour, Fingerprint: "blue-1@0", Routes: []store.Route{{Queue: event.PinnedQueue("default", "blue-1"), Workflow: flow.Name()}}}
		if err := c.Store().OpenSession(ctx, session); err != nil {
			t.Fatal(err)
		}
		run, err := flow.Start(ctx, c, 1)
		if err != nil {
			t.Fatal(err)
		}
		id = string(run.ID())
		s.wants(0, []string{"pinned to   build blue-1\n", "created by  build "}, nil, "show", id)
		if out := s.flowctl("show", id).stdout; strings.Contains(out, "build=") || strings.Contains(out, "unserved") {
			t.Errorf("show prints\n%s", out)
		}
		if err := c.Store().CloseSession(ctx, 0, "blue"); err != nil {
			t.Fatal(err)
		}
	})
	s.wants(0, []string{"no live worker of build blue-1 serves", "flowctl deploys retire blue-1"}, nil, "show", id)
}

func TestOPS10_FsckRepairsADamagedRecordOfDeployments(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openAt(t, url)
		s.look(func(ctx context.Context, c *workflow.Client) {
			entries, _ := store.As[store.Entries](c.Store())
			damaged := store.Entry{Space: store.DeploySpace, Key: "record", Value: []byte(`{"builds":[{"id":"v1","percent":"100"}]}`)}
			if err := entries.WriteEntry(ctx, store.EntryWrite{Entry: damaged}); err != nil {
				t.Fatal(err)
			}
		})
		s.wants(1, nil, []string{"record of deployments is damaged", "flowctl fsck --repair"}, "deploys")
		s.wants(7, []string{"24 ", "deploys has", "planned", "remove it"}, nil, "fsck")
		s.wants(0, []string{"repaired", "Findings left: 0."}, nil, "fsck", "--repair", "-y")
		s.wants(0, nil, nil, "deploys")
		s.wants(0, []string{"No violations."}, nil, "fsck")
	})
}
