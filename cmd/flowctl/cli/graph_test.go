package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/generated/graphs"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// surveyed executes a run of a graph to its end, and returns its name. One node of the graph fails,
// which the graph permits.
func (s *shop) surveyed() (ref string) {
	s.t.Helper()
	s.look(func(ctx context.Context, c *workflow.Client) {
		w := worker.New(c, worker.Config{NoLocalStart: true})
		graphs.Register(w, &graphs.LLM{}, func(_ context.Context, what string) (string, error) {
			if what == "may" {
				return "", step.Fatal(errors.New("it may not"))
			}
			return what, nil
		})
		working, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(working) }()
		run, err := graphs.Survey.Start(ctx, c, workflow.None{})
		if err == nil {
			_, err = run.Result(ctx)
		}
		for err == nil { // Wait until the worker has registered the workflow.
			var all []ops.CatalogEntry
			if all, err = ops.New(c).Catalog(ctx, ops.CatalogQuery{Workflow: graphs.Survey.Name()}); len(all) == 1 {
				break
			}
		}
		if err != nil {
			s.t.Fatal(err)
		}
		stop()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		ref = string(run.ID())
	})
	return ref
}

func TestOPS2_AGraphIsShownWithItsStates(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openAt(t, url)
		ref := s.surveyed()
		g := s.flowctl("show", ref, "--graph")
		head, table, ok := strings.Cut(g.stdout, "\n\n")
		if g.code != 0 || !ok {
			t.Fatalf("exit code %d\n%s%s", g.code, g.stdout, g.stderr)
		}
		for _, want := range []string{"survey/graph#1", "7: 5 done, 1 failed, 1 skipped", "as build "} {
			if !strings.Contains(head, want) {
				t.Errorf("want %q in\n%s", want, head)
			}
		}
		for _, line := range []string{
			`\d+ +one +done +\d`, `\d+ +afterOne +done +one +\d`, `\d+ +may +failed .* counts as skipped`, `\d+ +afterMay +done +may or that it was skipped +\d`,
			` +takesMay +skipped +may`, `\d+ +good +done +may or that it was skipped +\d`, `\d+ +two +done +one, good +\d`,
		} {
			if !regexp.MustCompile(`(?m)^` + line).MatchString(table) {
				t.Errorf("no line %q in\n%s", line, table)
			}
		}
		var shown admin.Graph
		if g = s.flowctl("show", ref, "--graph", "--json"); g.code != 0 || json.Unmarshal([]byte(g.stdout), &shown) != nil || shown.Run != ref || shown.States["done"] != 5 || shown.Nodes[4].State != "skipped" {
			t.Errorf("as JSON: %d\n%s%s", g.code, g.stdout, g.stderr)
		}
		s.wants(0, []string{"one\nafterOne\nmay\n"}, nil, "show", ref, "--graph", "-o", "name")
		s.wants(0, []string{"survey/graph#1"}, nil, "show", ref, "--path", "survey/graph#1")
		s.wants(3, nil, []string{`executes no graph at "other"`}, "show", ref, "--path", "other")
		s.wants(3, nil, []string{"executes no graph"}, "show", s.runs["good"], "--graph")
		s.wants(2, nil, []string{"--graph"}, "show", ref, "--graph", "--tree")
	})
}
