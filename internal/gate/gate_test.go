package gate_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/gate"
	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/flowgen/flowgen/runtime/codec"
)

// files is a module with workflows in a public package, in an internal package and in a program.
// The steps have receivers of unexported types.
var files = map[string]string{
	"orders/orders.go": `package orders

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

type shop struct{ name *string }

// NewShop makes what Register takes.
func NewShop() *shop { return &shop{} }

//flow:step
func (s *shop) ship(ctx context.Context, id string) error { return nil }

//flow:step
func tell(ctx context.Context, id string) error { return nil }

//flow:workflow
func fulfil(ctx workflow.Context, id string) error {
	if err := Ship(ctx, id); err != nil {
		return err
	}
	if id[0] == 'b' {
		if err := Tell(ctx, "big "+id); err != nil {
			return err
		}
	}
	return workflow.Sleep(ctx, 24*time.Hour)
}
`,
	"a/internal/b/b.go": `package b

import "github.com/flowgen/flowgen/runtime/workflow"

//flow:workflow
func inner(ctx workflow.Context, id string) error { return workflow.SleepUntil(ctx, workflow.Now(ctx).AddDate(1, 0, 0)) }
`,
	"a/a.go": `package a

import (
	"example.com/user/a/internal/b"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Register is that of the internal package.
func Register(r workflow.Registrar) { b.Register(r) }

// Inner is its workflow.
var Inner = b.Inner
`,
	"seed/main.go": `package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"example.com/user/a"
	"example.com/user/orders"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

//flow:workflow
func own(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) }

func main() {
	ctx, stop := context.WithCancel(context.Background())
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	st, err := store.Open(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(client, worker.Config{})
	orders.Register(w, orders.NewShop())
	a.Register(w)
	Register(w)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	var requests []workflow.StartRequest[string]
	for i := range n {
		requests = append(requests, workflow.StartRequest[string]{Input: fmt.Sprintf("%c%d", "ab"[i%2], i)})
	}
	all, err := orders.Fulfil.StartMany(ctx, client, requests)
	if err != nil {
		log.Fatal(err)
	}
	var ids []workflow.RunID
	for _, started := range all {
		if started.Err != nil {
			log.Fatal(started.Err)
		}
		ids = append(ids, started.Run.ID())
	}
	inner, err := a.Inner.Start(ctx, client, "x")
	if err != nil {
		log.Fatal(err)
	}
	own, err := Own.Start(ctx, client, workflow.None{})
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range append(ids, inner.ID(), own.ID()) {
		for e, err := range client.Run(id).Events(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			if e.Type == event.WaitCreated { // it sleeps
				break
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	if err := st.Close(); err != nil {
		log.Fatal(err)
	}
}
`,
}

func TestMain(m *testing.M) { redistest.Main(m) }

// TestVER5_RunsOfAStoreThatDoNotFitAreFoundBeforeADeployment proves that all runs that do not match
// changed code are found. 500 of 1,002 open runs have executed the code that has changed. The
// module is not modified. In make test, there are fewer runs, the unchanged code of one package is
// replayed on SQLite, and the changed code of all packages on Redis.
func TestVER5_RunsOfAStoreThatDoNotFitAreFoundBeforeADeployment(t *testing.T) {
	dir := module(t, files)
	seed := filepath.Join(t.TempDir(), "seed")
	command(t, dir, "go", "build", "-o", seed, "./seed")
	urls := []string{"sqlite:" + filepath.Join(t.TempDir(), "runs.db"), redistest.Start(t).URL()}
	runs := 1000 / depth.Stride(5)
	for _, url := range urls {
		command(t, dir, seed, url, strconv.Itoa(runs))
	}
	same, want, changed := gate.Config{Dir: dir, URL: urls[0], Patterns: []string{"./orders"}}, runs, urls[1:]
	if depth.Full() {
		same.Patterns, want, changed = nil, runs+2, urls
	}
	if report := replay(t, same); report.Replayed != want || len(report.Misfits) != 0 {
		t.Errorf("the same code: %+v", report)
	}
	usermodule.Write(t, dir, "orders/orders.go", strings.Replace(files["orders/orders.go"], `"big "+id`, `"BIG "+id`, 1))
	before := command(t, dir, "find", ".")
	for _, url := range changed {
		save := filepath.Join(t.TempDir(), "saved")
		report := replay(t, gate.Config{Dir: dir, URL: url, Save: save})
		if report.Replayed != runs+2 || len(report.Misfits) != 1 {
			t.Fatalf("other code: %+v", report)
		}
		g := report.Misfits[0]
		if g.Workflow != "orders.fulfil" || g.Count != runs/2 || len(g.Runs) != 3 || !strings.Contains(g.Divergence, "orders.tell#1") || !strings.Contains(g.Divergence, "orders.go:") {
			t.Errorf("the misfits are %+v", g)
		}
		saved, err := filepath.Glob(filepath.Join(save, "orders.fulfil", "*.json"))
		if err != nil || len(saved) != runs/2 {
			t.Errorf("%d histories were saved (%v)", len(saved), err)
		}
	}
	if report := replay(t, gate.Config{Dir: dir, Patterns: []string{"./orders"}, URL: urls[1], Size: 100, Seed: 7}); report.Replayed != 100 {
		t.Errorf("of 100 runs of a package %d were replayed", report.Replayed)
	}
	if after := command(t, dir, "find", "."); after != before {
		t.Errorf("the module was changed: %s", after)
	}
}

func TestVER5_AStoreThatCannotBeReadIsAnErrorOfItsOwn(t *testing.T) {
	const inner = "a/internal/b/b.go"
	dir := module(t, map[string]string{inner: files[inner]})
	_, err := gate.Run(t.Context(), gate.Config{Dir: dir, URL: "sqlite:" + filepath.Join(t.TempDir(), "no", "such", "directory", "x.db")})
	if !errors.Is(err, gate.ErrStore) {
		t.Errorf("got %v", err)
	}
	missing := filepath.Join(t.TempDir(), "x.db")
	if _, err := gate.Run(t.Context(), gate.Config{Dir: dir, URL: "sqlite:" + missing}); !errors.Is(err, gate.ErrStore) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a file that does not exist, of which no run is missing: got %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was made (%v)", err)
	}
	if _, err := gate.Run(t.Context(), gate.Config{Dir: dir, URL: "oracle:x"}); err == nil || !strings.Contains(err.Error(), "-driver") {
		t.Errorf("a scheme that nobody knows: %v", err)
	}
}

// sealing is a program that executes a run with the codec of the environment until it sleeps.
const sealing = `package main

import (
	"context"
	"log"
	"os"

	"example.com/user/a"
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	st, err := store.Open(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	cfg, err := codec.ConfigFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	cfg.OffloadAbove = 50
	c, err := codec.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	client := workflow.NewClient(st, workflow.ClientConfig{Codec: c})
	w := worker.New(client, worker.Config{})
	a.Register(w)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	run, err := a.Inner.Start(ctx, client, "an input that is offloaded")
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range run.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if e.Type == event.WaitCreated {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	if err := st.Close(); err != nil {
		log.Fatal(err)
	}
}
`

// TestOPS11_SealedRunsAreReplayedWithTheCodecOfTheEnvironment proves that the replay needs the keys and the
// blobs of the runs, and takes them from the environment.
func TestOPS11_SealedRunsAreReplayedWithTheCodecOfTheEnvironment(t *testing.T) {
	dir := module(t, map[string]string{"a/internal/b/b.go": files["a/internal/b/b.go"], "a/a.go": files["a/a.go"], "seed/main.go": sealing})
	key, err := codec.NewKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	blobs := t.TempDir()
	cfg := gate.Config{Dir: dir, URL: "sqlite:" + filepath.Join(t.TempDir(), "runs.db"), Patterns: []string{"./a/..."}}
	set := func(keys, blobs string) {
		t.Setenv("FLOWGEN_CODEC_KEYS", keys)
		t.Setenv("FLOWGEN_CODEC_BLOBS", blobs)
	}
	set(key.Text(), "file://"+blobs)
	command(t, dir, "go", "run", "./seed", cfg.URL)
	if report := replay(t, cfg); report.Replayed != 1 || len(report.Misfits) != 0 {
		t.Errorf("with the codec: %+v", report)
	}
	other, err := codec.NewKey("k2")
	if err != nil {
		t.Fatal(err)
	}
	for want, env := range map[string][2]string{
		"sealed, key k1":                 {"", ""},
		"key k1":                         {other.Text(), "file://" + blobs},
		"blob not found":                 {key.Text(), "file://" + t.TempDir()},
		"no blob store is configured":    {key.Text(), ""},
		"FLOWGEN_CODEC_KEYS is invalid ": {"k1", ""},
	} {
		set(env[0], env[1])
		if _, err := gate.Run(t.Context(), cfg); !errors.Is(err, gate.ErrStore) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func replay(t *testing.T, cfg gate.Config) *gate.Report {
	t.Helper()
	report, err := gate.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(report); err != nil {
		t.Fatal(err)
	}
	return report
}

// module creates a module with the given files and generates the code of its packages.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := usermodule.New(t, files)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./..."}})
	if err != nil || len(report.Diagnostics) > 0 {
		t.Fatalf("generate: %v, %v", err, report)
	}
	return dir
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
