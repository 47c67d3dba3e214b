package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// decodeOne decodes an output into v. The output must consist of a single JSON value.
func decodeOne(t *testing.T, what, output string, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(output))
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v in\n%s", what, err, output)
	}
	if d.Decode(new(any)) != io.EOF {
		t.Errorf("%s: more than one value:\n%s", what, output)
	}
}

func TestOPS1_WaitAsJSONIsOneValueWithTheFailure(t *testing.T) {
	s := open(t)
	g := s.flowctl("wait", "id:order-bad", "--json")
	var r admin.Run
	decodeOne(t, "wait", g.stdout, &r)
	if g.code != 8 || g.stderr != "" || r.Status != "failed" || r.Failure == nil {
		t.Errorf("got exit code %d, status %q, failure %v and %q, want 8, failed, its failure and nothing", g.code, r.Status, r.Failure, g.stderr)
	}
}

func TestOPS1_ExportHasJSON(t *testing.T) {
	s := open(t)
	var counts struct{ Runs int }
	g := s.flowctl("export", "--all", "--out", filepath.Join(t.TempDir(), "all.jsonl"), "--json")
	decodeOne(t, "export", g.stderr, &counts)
	if g.code != 0 || counts.Runs != 4 {
		t.Errorf("got exit code %d and %d runs, want 0 and 4", g.code, counts.Runs)
	}
}

func TestOPS1_StartReportsThatNoWorkerServesTheRun(t *testing.T) {
	s := open(t)
	s.wants(0, []string{"wrun_"}, []string{"no live worker serves workflow shop.orderr on queue default"}, "start", "shop.orderr", "-i", `{"what":"good"}`)
	var made struct{ Unserved bool }
	decodeOne(t, "start", s.flowctl("start", "shop.orderr", "-i", `{"what":"good"}`, "--json").stdout, &made)
	if !made.Unserved {
		t.Error("the JSON of start does not report that no worker serves the run")
	}
}

func TestOPS1_ShowNamesAStepThatARunOfItsOwnExecutes(t *testing.T) {
	cranes := limit.New("shop.cranes", limit.Config{AtOnce: 2})
	lift := shim.NewStep("shop.lift", shim.Policy{Uses: shim.Uses(func(string) []limit.Use { return []limit.Use{cranes.Use(1)} })}, func(f func(context.Context, string) (string, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, what string) (string, error) { return f(ctx, what) })
	})
	load := shim.NewWorkflow[string, string]("shop.load", "what", shim.WorkflowPolicy{})
	s := open(t)
	s.look(func(ctx context.Context, c *workflow.Client) {
		w := worker.New(c, worker.Config{NoLocalStart: true})
		lift.Bind(w, func(_ context.Context, what string) (string, error) { return what, nil })
		shim.BindWorkflow(w, load, func(ctx workflow.Context, what string) (string, error) { return shim.Call[string](ctx, lift, what) })
		working, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- w.Run(working) }()
		h, err := load.Start(ctx, c, "crate")
		if err == nil {
			_, err = h.Result(ctx)
		}
		if stop(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.wants(0, []string{"step shop.lift  load/shop.lift#1  completed"}, nil, "show", string(h.ID()))
	})
}

func TestOPS1_PoolsNamesTheRunsThatHoldPermits(t *testing.T) {
	piers := limit.New("shop.piers", limit.Config{AtOnce: 2})
	pass := shim.NewWorkflow[string, string]("shop.pass", "what", shim.WorkflowPolicy{Uses: shim.Uses(func(string) []limit.Use { return []limit.Use{piers.Use(1)} })})
	s := open(t)
	var run string
	s.look(func(ctx context.Context, c *workflow.Client) {
		w := worker.New(c, worker.Config{NoLocalStart: true})
		shim.BindWorkflow(w, pass, func(ctx workflow.Context, _ string) (string, error) {
			_, err := verdicts.Receive(ctx)
			return "", err
		})
		working, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error)
		go func() { ended <- w.Run(working) }()
		h, err := pass.Start(ctx, c, "in")
		if err != nil {
			t.Fatal(err)
		}
		run = string(h.ID())
		for info := (workflow.RunInfo{}); info.Status != workflow.StatusWaiting; {
			next(ctx, t, c.Run(h.ID()), info.Events)
			if info, err = h.Info(ctx); err != nil {
				t.Fatal(err)
			}
		}
		s.wants(0, []string{"HELD BY", run + " (waiting)"}, nil, "pools", piers.Name())
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestRUN17_ShowPrintsUntilWhenARerunIsDelayed(t *testing.T) {
	parcels := shim.NewWorkflow[string, string]("shop.parcel", "what", shim.WorkflowPolicy{
		Rerun: workflow.RetryPolicy{Attempts: 2, Initial: time.Hour, Max: time.Hour},
	})
	s := open(t)
	s.look(func(ctx context.Context, c *workflow.Client) {
		w := worker.New(c, worker.Config{NoLocalStart: true})
		shim.BindWorkflow(w, parcels, func(workflow.Context, string) (string, error) { return "", errors.New("the carrier is closed") })
		working, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- w.Run(working) }()
		h, err := parcels.Start(ctx, c, "crate")
		if err != nil {
			t.Fatal(err)
		}
		var failed workflow.RunInfo
		for failed.RetriedAs == "" {
			if failed, err = h.Info(ctx); err != nil {
				t.Fatal(err)
			}
		}
		rerun, err := c.Run(failed.RetriedAs).Info(ctx)
		if stop(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if wait := rerun.Due.Sub(failed.EndedAt); (wait - time.Hour).Abs() > time.Minute { // The due time and the end differ slightly, because the store records the end after the worker has decided on the rerun.
			t.Errorf("the rerun is due %v after the failure, want an hour", wait)
		}
		s.wants(0, []string{"retried as  " + string(rerun.ID)}, nil, "show", string(failed.ID))
		for _, line := range []string{`status +sleeping`, `rerun of +` + string(failed.ID), `due +` + regexp.QuoteMeta(rerun.Due.UTC().Format(time.RFC3339)), `actions +cancel pause resume `} {
			if got := s.flowctl("show", string(rerun.ID)); got.code != 0 || !regexp.MustCompile(`(?m)^`+line).MatchString(got.stdout) {
				t.Errorf("show of a rerun in its delay: want a line %q in\n%s%s", line, got.stdout, got.stderr)
			}
		}
	})
}

func TestEV11_AttributesOfAStartAreShown(t *testing.T) {
	s := open(t)
	s.wants(2, nil, []string{`--attribute "tenant" does not have the form name=value`}, "start", "shop.order", "--attribute", "tenant")
	s.wants(2, nil, []string{`key of an attribute "build" is set by the runtime`}, "start", "shop.order", "-i", `{"what":"good"}`, "--attribute", "build=1")
	s.wants(0, []string{"wrun_"}, nil, "start", "shop.order", "-i", `{"what":"good"}`, "--id", "attributed", "--attribute", "tenant=acme", "--attribute", "plan=a=b")
	s.wants(0, []string{"attr ", "plan=a=b", "tenant=acme", "created by  build "}, nil, "show", "id:attributed")
	if out := s.flowctl("show", "id:attributed", "--payloads", "hide").stdout; strings.Contains(out, "acme") || !strings.Contains(out, "created by  build ") || strings.Contains(out, "build=") {
		t.Errorf("without payloads, show prints %s", out)
	}
}
