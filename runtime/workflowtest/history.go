package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// historyFormat is the version of the files that Record writes. The frames in a file have a
// separate version, that of the wire format.
const historyFormat = 1

// history is the content of a file with a recorded log.
type history struct {
	Format   int         `json:"format"`
	Workflow string      `json:"workflow"`
	Run      event.RunID `json:"run"`
	// Log is for people. Replay does not read it.
	Log    []string `json:"log"`
	Frames [][]byte `json:"frames"`
}

// Record writes the current log of a run to a file for Replay. It creates missing directories and
// replaces an existing file. It works with every store, including that of a production system.
func Record(ctx context.Context, s store.Store, run workflow.RunID, path string) error {
	loaded, err := s.Load(ctx, []store.Load{{Run: run}})
	if err == nil {
		err = loaded[0].Err
	}
	if err != nil {
		return fmt.Errorf("record run %s: %w", run, err)
	}
	events, err := decode(loaded[0].Frames)
	if err != nil {
		return fmt.Errorf("record run %s: %w", run, err)
	}
	data, err := json.MarshalIndent(history{
		Format: historyFormat, Workflow: loaded[0].Record.Route.Workflow, Run: run, Log: textOf(events), Frames: loaded[0].Frames,
	}, "", "\t")
	if err != nil {
		return fmt.Errorf("record run %s: %w", run, err)
	}
	if err := writeFile(path, append(data, '\n')); err != nil {
		return fmt.Errorf("record run %s: %w", run, err)
	}
	return nil
}

// Record writes the log of a run to a file for Replay. It fails the test if the file cannot be
// written. See the function [Record].
func (e *Env) Record(run *workflow.Handle, path string) {
	e.tb.Helper()
	if err := Record(e.ctx, e.store, run.ID(), path); err != nil {
		e.tb.Fatalf("workflowtest: %v", err)
	}
}

// Replay runs the current code against recorded logs. It fails the test for each log that does not
// match the code, because deploying the code would block an open run with that log. Replay executes
// no step. setup registers the workflows. files are paths or patterns as in filepath.Glob. Each
// must match at least one file.
func Replay(t testing.TB, setup func(*Env), files ...string) {
	t.Helper()
	if len(files) == 0 {
		t.Error("workflowtest: Replay: no files are named: record some with Record")
	}
	e := New(t)
	setup(e)
	for _, pattern := range files {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Errorf("workflowtest: Replay: no file matches %s (%v): record one with Record", pattern, err)
		}
		for _, name := range names {
			if err := e.replayFile(name); err != nil {
				t.Errorf("workflowtest: Replay %s: %v", name, err)
			}
		}
	}
}

func (e *Env) replayFile(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	var h history
	if err := json.Unmarshal(data, &h); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	if h.Format < 1 || h.Format > historyFormat {
		return fmt.Errorf("read history: it has format %d, this release reads up to %d: use the release that has recorded it, or a newer one", h.Format, historyFormat)
	}
	return e.replayFrames(h.Run, h.Workflow, h.Frames)
}

// replayFrames runs the code against a log, which may be incomplete.
func (e *Env) replayFrames(id event.RunID, name string, frames [][]byte) error {
	events, err := decode(frames)
	if err != nil {
		return err
	}
	for i := range events {
		if err := events[i].CheckOpen(); err != nil {
			return fmt.Errorf("event %d cannot be compared with the code: %w", events[i].Seq, err)
		}
	}
	run, err := e.replay(id, name, events)
	if err != nil {
		return err
	}
	run.Close()
	return nil
}

// ReplayStore runs the current code against the runs of a live store that match f, as Replay does
// with files. It returns the number of these runs, which include runs that have ended. It does not
// write to the store, which must be able to list runs. If a codec has sealed the logs, s must be the Store
// of a client with the codec. It skips runs of workflows that setup does
// not register. To replay a sample of many runs, use [ReplaySample].
func ReplayStore(t testing.TB, setup func(*Env), s store.Store, f workflow.Filter) int {
	t.Helper()
	replayed := 0
	results, err := ReplaySample(t, setup, s, f, ReplayLimit{})
	for _, r := range results {
		replayed++
		if r.Err != nil {
			t.Errorf("workflowtest: ReplayStore: run %s of %s: %v", r.Run, r.Workflow, r.Err)
		}
	}
	if err != nil {
		t.Errorf("workflowtest: ReplayStore: %v", err)
	}
	return replayed
}
