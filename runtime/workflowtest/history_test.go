package workflowtest_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// histories is the directory with the logs recorded by each release. The logs of a release never
// change. The flag -histories records the current logs into the subdirectory "next", which is
// renamed on release.
const histories = "testdata/histories"

var recordFlag = flag.Bool("histories", false, "record today's histories")

// recorded contains the workflows whose logs are kept. The operations of their code never change.
var recorded = map[string]func(e *workflowtest.Env) *workflow.Handle{
	"order": func(e *workflowtest.Env) *workflow.Handle { return begin(e, order, "o1") },
	"waits": func(e *workflowtest.Env) *workflow.Handle { return begin(e, keptWaits, "w1") },
	"fails": func(e *workflowtest.Env) *workflow.Handle { return begin(e, keptFails, "f1") },
	"cancelled": func(e *workflowtest.Env) *workflow.Handle {
		run := begin(e, keptCancel, "c1")
		e.Advance(time.Minute)
		if err := run.Cancel(e.Context(), "changed my mind"); err != nil {
			panic(err)
		}
		return run
	},
}

var (
	keptWaits  = flow("kept.waits")
	keptFails  = flow("kept.fails")
	keptCancel = flow("kept.cancel")
	keptDown   = newStep("kept.down", shim.Policy{})
)

func begin(e *workflowtest.Env, d workflow.Definition[string, string], in string) *workflow.Handle {
	run, err := d.Start(e.Context(), e.Client(), in)
	if err != nil {
		panic(err)
	}
	return run.Handle
}

// keptWaitsCode is the code of a workflow that waits in several ways.
func keptWaitsCode(ctx workflow.Context, in string) (string, error) {
	n, err := workflow.Record(ctx, func() (int, error) { return 42, nil })
	if err != nil {
		return "", err
	}
	first, second := workflow.After(time.Hour), note.Case()
	won, err := workflow.Select(ctx, second, first)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(in, n, workflow.Rand(ctx).IntN(1000), workflow.UUID(ctx), won == first), nil
}

// setupKept registers the workflows whose logs are kept.
func setupKept(e *workflowtest.Env) {
	setupOrder(e)
	work.Bind(e, echo)
	shim.BindWorkflow(e, keptWaits, keptWaitsCode)
	workflowtest.Stub(e, keptDown, nil).FailFirst(1, errors.New("down"))
	shim.BindWorkflow(e, keptFails, func(ctx workflow.Context, in string) (string, error) {
		if _, err := call(ctx, keptDown, in); err != nil {
			return "", err
		}
		return "", fmt.Errorf("no luck with %s", in)
	})
	shim.BindWorkflow(e, keptCancel, func(ctx workflow.Context, in string) (string, error) {
		limited, cancel := workflow.WithTimeout(ctx, time.Hour)
		defer cancel()
		if _, err := note.Receive(limited); err != nil {
			_, undone := call(workflow.Detached(ctx), work, in)
			return "", fmt.Errorf("%w, %v", err, undone)
		}
		return in, nil
	})
}

func TestEV10_HistoriesOfEveryReleaseFitTodaysCode(t *testing.T) {
	if *recordFlag {
		recordHistories(t)
	}
	releases, err := filepath.Glob(filepath.Join(histories, "*"))
	if err != nil || len(releases) == 0 {
		t.Fatalf("there are no histories: %v", err)
	}
	for _, release := range releases {
		for name := range recorded {
			t.Run(filepath.Base(release)+"/"+name, func(t *testing.T) {
				workflowtest.Replay(t, setupKept, filepath.Join(release, name+".json"))
			})
		}
	}
}

func recordHistories(t *testing.T) {
	for name, begin := range recorded {
		env := workflowtest.New(t)
		setupKept(env)
		run := begin(env)
		for range run.Events(t.Context()) { // read until the run has ended
		}
		env.Record(run, filepath.Join(histories, "next", name+".json"))
	}
}

// history has those fields of a history file that the tests change.
type history struct {
	Format   int      `json:"format"`
	Workflow string   `json:"workflow"`
	Run      string   `json:"run"`
	Frames   [][]byte `json:"frames"`
}

// newerFrame increments the version in a frame, as a later release would.
func newerFrame(frame []byte) {
	frame[1] = event.SealedVersion + 1
	body := frame[:len(frame)-4]
	binary.LittleEndian.PutUint32(frame[len(body):], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

func TestEV10_ALogOfANewerReleaseIsRefusedWithItsVersion(t *testing.T) {
	tests := map[string]struct {
		change func(h *history)
		says   string
	}{
		"frame of a newer release": {func(h *history) { newerFrame(h.Frames[0]) }, "frame has wire version 3, this release reads up to 2: use a newer release"},
		"file of a newer release":  {func(h *history) { h.Format = 9 }, "it has format 9, this release reads up to 1"},
		"damaged frame":            {func(h *history) { h.Frames[1][20] ^= 1 }, "its checksum differs"},
		"unknown workflow":         {func(h *history) { h.Workflow = "kept.unknown" }, "workflow kept.unknown is not registered"},
		"no format":                {func(h *history) { h.Format = 0 }, "it has format 0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(histories, "next", "order.json"))
			if err != nil {
				t.Fatal(err)
			}
			var h history
			if err := json.Unmarshal(data, &h); err != nil {
				t.Fatal(err)
			}
			tt.change(&h)
			if data, err = json.Marshal(h); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "changed.json")
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			got := observe(t, func(t testing.TB) { workflowtest.Replay(t, setupKept, file) })
			if !strings.Contains(got, tt.says) || !strings.Contains(got, file) {
				t.Errorf("got %q, want the file and %q", got, tt.says)
			}
		})
	}
}

func TestTEST4_ReplayFailsWithoutFiles(t *testing.T) {
	for _, files := range [][]string{nil, {"testdata/nothing*.json"}} {
		if got := observe(t, func(t testing.TB) { workflowtest.Replay(t, setupKept, files...) }); got == "" {
			t.Errorf("Replay of %v passes", files)
		}
	}
}

func TestVER5_AHistoryMayEndAnywhere(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(histories, "next", "order.json"))
	if err != nil {
		t.Fatal(err)
	}
	var h history
	if err := json.Unmarshal(data, &h); err != nil {
		t.Fatal(err)
	}
	for n := len(h.Frames); n > 0; n-- {
		h.Frames = h.Frames[:n]
		data, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "cut.json")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := observe(t, func(t testing.TB) { workflowtest.Replay(t, setupKept, file) }); got != "" {
			t.Errorf("cut behind frame %d: %s", n, got)
		}
	}
}

func TestVER5_RunsOfALiveStoreAreReplayed(t *testing.T) {
	for _, changed := range []bool{false, true} {
		live := workflowtest.New(t)
		setupKept(live)
		for _, in := range []string{"a", "b"} {
			if _, err := keptWaits.Execute(t.Context(), live.Client(), in); err != nil {
				t.Fatal(err)
			}
		}
		open := begin(live, keptCancel, "open")
		live.Advance(time.Minute)
		setup := func(e *workflowtest.Env) {
			work.Bind(e, echo)
			shim.BindWorkflow(e, keptWaits, func(ctx workflow.Context, in string) (string, error) {
				if changed {
					return in, workflow.Sleep(ctx, time.Minute)
				}
				return keptWaitsCode(ctx, in)
			})
		}
		n := 0
		got := observe(t, func(t testing.TB) {
			n = workflowtest.ReplayStore(t, setup, live.Store(), workflow.Filter{})
		})
		if n != 2 {
			t.Errorf("%d runs were replayed, want 2: of %s nothing is registered", n, open.ID())
		}
		if (got != "") != changed || changed && strings.Count(got, "does not fit this code") != 2 {
			t.Errorf("changed %v: got %q", changed, got)
		}
	}
}

func TestTEST4_RecordNamesTheRunThatIsNotThere(t *testing.T) {
	err := workflowtest.Record(context.Background(), memstore.New(), "wrun_01Q3G996480000000000002000", filepath.Join(t.TempDir(), "x.json"))
	if err == nil || !strings.Contains(err.Error(), "record run wrun_01Q3G996480000000000002000: run not found") {
		t.Errorf("got %v", err)
	}
}

func TestVER5_ARunThatItsClientCanceledBeforeItBeganFitsTheCode(t *testing.T) {
	s := memstore.New() // no worker serves the run, so the client ends it
	client := workflow.NewClient(s, workflow.ClientConfig{})
	defer func() { _ = client.Close() }()
	run, err := keptWaits.Start(t.Context(), client, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Cancel(t.Context(), "not needed"); err != nil {
		t.Fatal(err)
	}
	info, err := run.Info(t.Context())
	if err != nil || info.Status != workflow.StatusCanceled {
		t.Fatalf("the run is %s (%v), want canceled", info.Status, err)
	}
	n := 0
	got := observe(t, func(t testing.TB) { n = workflowtest.ReplayStore(t, setupKept, s, workflow.Filter{}) })
	if n != 1 || got != "" {
		t.Errorf("%d runs were replayed, want 1 without a report: %s", n, got)
	}
}
