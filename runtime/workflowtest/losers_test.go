package workflowtest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// logged is a testing.TB that records its log.
type logged struct {
	testing.TB
	mu    sync.Mutex
	lines []string
}

func (l *logged) Log(args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprint(args...))
}

func (l *logged) with(text string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			all = append(all, line)
		}
	}
	return all
}

// TestFirst_ALoserThatTakesTheNextMessageIsWarnedOf proves that one warning is logged if a losing
// branch takes a message and no code reads it. The warning names the place in the code.
func TestFirst_ALoserThatTakesTheNextMessageIsWarnedOf(t *testing.T) {
	for name, tt := range map[string]struct {
		asks bool
		want int
	}{"nobody asks for it": {false, 1}, "it is asked for later": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			l := &logged{TB: t}
			env, d := workflowtest.New(l), flow("tests.flow")
			shim.BindWorkflow(env, d, func(ctx workflow.Context, in string) (string, error) {
				receive := func(ctx workflow.Context) (string, error) { return note.Receive(ctx) }
				late := func(ctx workflow.Context) (string, error) { return "late", workflow.Sleep(ctx, time.Minute) }
				loser := workflow.Go(ctx, receive)
				if _, err := workflow.First(ctx, loser, workflow.Go(ctx, late)); err != nil {
					return "", err
				}
				if err := workflow.Sleep(ctx, 2*time.Hour); err != nil || !tt.asks {
					return in, err
				}
				return loser.Get(ctx)
			})
			env.At(time.Hour, send(env, "here"))
			if _, err := d.Execute(t.Context(), env.Client(), "in"); err != nil {
				t.Fatal(err)
			}
			got := l.with("had lost a First")
			if len(got) != tt.want || tt.want > 0 && !strings.Contains(got[0], "losers_test.go:") {
				t.Errorf("got %d warnings, want %d with their places: %q", len(got), tt.want, got)
			}
		})
	}
}
