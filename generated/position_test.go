package generated_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/generated/methods"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	mapper = shim.NewWorkflow[string, string]("position.mapper", "in", shim.WorkflowPolicy{})
	again  = workflow.NewTopic[string]("again")
)

// work serves mapper with some code until it is stopped.
func work(t *testing.T, client *workflow.Client, code func(ctx workflow.Context) error) (stop func()) {
	t.Helper()
	w := worker.New(client, worker.Config{})
	methods.Register(w, methods.Clock{}, same, &methods.Shop{}, &methods.Store{}, methods.Base{})
	shim.BindWorkflow(w, mapper, func(ctx workflow.Context, _ string) (string, error) {
		if err := code(ctx); err != nil {
			return "", err
		}
		return again.Receive(ctx)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("worker: %v", err)
		}
	}
}

// A generated step that is the function of a Map is called by no code of the users': what is
// said of it is where they have called Map.
func TestVER1_AMismatchInAMapOverAGeneratedStepSaysWhereTheMapIs(t *testing.T) {
	var line int
	named := func(names string) (items []methods.Item) {
		_, _, here, _ := runtime.Caller(1)
		line = here
		for _, name := range names {
			items = append(items, methods.Item{Name: string(name)})
		}
		return items
	}
	each := func(ctx workflow.Context, names string) error {
		_, err := workflow.Map(ctx, named(names), methods.Double)
		return err
	}
	settled := func(ctx workflow.Context, names string) error {
		_ = workflow.MapSettled(ctx, named(names), methods.Double)
		return nil
	}
	inTurn := func(ctx workflow.Context, names string) error {
		_, err := workflow.Map(ctx, named(names), methods.Double, workflow.Limit(1))
		return err
	}
	for name, tt := range map[string]struct {
		code        func(ctx workflow.Context, names string) error
		names, then string
	}{
		"another item":                       {each, "abc", "axc"},
		"another item of MapSettled":         {settled, "abc", "abx"},
		"another item after others":          {inTurn, "abc", "abx"},
		"an item less":                       {each, "abc", "ab"},
		"the first item of those one by one": {inTurn, "abc", "xbc"},
	} {
		t.Run(name, func(t *testing.T) {
			client := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
			defer func() { _ = client.Close() }()
			ctx, names := limited(t), tt.names
			code := func(ctx workflow.Context) error { return tt.code(ctx, names) }
			stop := work(t, client, code)
			run, err := mapper.Start(ctx, client, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range run.Events(ctx, workflow.Types(event.WaitCreated)) {
				if err != nil {
					t.Fatal(err)
				}
				break // the steps are done
			}
			stop()
			names = tt.then
			if err := again.Send(ctx, run, "go on"); err != nil {
				t.Fatal(err)
			}
			defer work(t, client, code)()
			for {
				info, err := run.Info(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if info.Status == workflow.StatusBlocked {
					at := fmt.Sprintf("generated/position_test.go:%d", line)
					if got, want := strings.Count(info.Blocked, at), max(strings.Count(info.Blocked, " waits for "), 1); got != want {
						t.Errorf("it says %s %d times, want %d:\n%s", at, got, want, info.Blocked)
					}
					return
				}
				runtime.Gosched()
			}
		})
	}
}
