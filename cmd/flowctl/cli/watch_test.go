package cli_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestOPS1_WatchPrintsEachRunThatChanges(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(ctx, cli.Config{Args: []string{"--store", s.url, "runs", "--watch"}, Stdin: strings.NewReader(""), Stdout: w, Stderr: io.Discard})
		_ = w.Close()
	}()
	lines := bufio.NewScanner(r)
	until := func(parts ...string) (before []string) {
		t.Helper()
		for lines.Scan() {
			found := true
			for _, part := range parts {
				found = found && strings.Contains(lines.Text(), part)
			}
			if found {
				return before
			}
			before = append(before, lines.Text())
		}
		t.Fatalf("there is no line with %v, but %q", parts, before)
		return nil
	}
	until("STATUS", "WORKFLOW")
	until("completed", "order-good")
	until("held", "order-held")
	s.wants(0, []string{"done"}, nil, "pause", "id:order-wait")
	s.work(func(ctx context.Context, c *workflow.Client) { paused(ctx, t, c, s.runs["wait"]) })
	again := until("paused", "order-wait")
	for _, line := range again {
		if strings.Contains(line, "order-good") || strings.Contains(line, "STATUS") {
			t.Errorf("a line is printed again that has not changed: %q", line)
		}
	}
	cancel()
	for lines.Scan() { // Skip the lines of runs that are in progress.
	}
	if got := <-code; got != 130 {
		t.Errorf("exit code %d once it is interrupted, want 130", got)
	}
	s.wants(2, nil, []string{"use -o jsonl"}, "runs", "--watch", "--json")
	s.wants(2, nil, []string{"give one"}, "runs", "--watch", "--all")
}

// paused waits until a run is paused.
func paused(ctx context.Context, t *testing.T, c *workflow.Client, run string) {
	t.Helper()
	for {
		info, err := c.Run(workflow.RunID(run)).Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.Status == workflow.StatusPaused {
			return
		}
		next(ctx, t, c.Run(workflow.RunID(run)), info.Events)
	}
}
