package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flowgen/flowgen/examples/recipes/rolling"
	after "github.com/flowgen/flowgen/examples/recipes/rolling/orders"
	before "github.com/flowgen/flowgen/examples/recipes/rolling/testdata/release1"
	"github.com/flowgen/flowgen/internal/breaking"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// workRole runs a worker of a release until SIGTERM. Its arguments are the file of the store and
// the number of the release.
func workRole(ctx context.Context, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	st, err := sqlitestore.Open(args[0])
	if err != nil {
		return err
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	err = rolling.Work(ctx, client, map[string]int{"1": 1, "2": 2}[args[1]])
	_ = client.Close()
	_ = st.Close()
	return err
}

// The test proves that orders of both releases are fulfilled. Processes of both releases run at the
// same time. The new release continues the orders that wait when the old process ends.
func TestRolling_OrdersOfBothReleasesAreFulfilled(t *testing.T) {
	ctx := limited(t)
	file := filepath.Join(t.TempDir(), "orders.db")
	st, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	client := workflow.NewClient(st, quiet)
	defer func() { _ = client.Close() }()
	work := func(release string) (stop func()) {
		cmd := exec.CommandContext(ctx, os.Args[0], file, release)
		cmd.Env = append(os.Environ(), roleOf+"=work")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("release %s: %v", release, err)
			}
		}
	}
	start := func(name string, n int) (runs []*workflow.Run[string]) {
		for i := range n {
			run, err := before.Fulfil.Start(ctx, client, fmt.Sprint(name, i))
			if err == nil {
				err = rolling.AwaitPacking(ctx, run)
			}
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, run)
		}
		return runs
	}
	finish := func(runs []*workflow.Run[string], want func(result string) bool) {
		for _, run := range runs {
			if err := after.Packed.Send(ctx, run, workflow.None{}); err != nil {
				t.Fatal(err)
			}
			if result, err := run.Result(ctx); err != nil || !want(result) {
				t.Errorf("run %s has the result %q: %v", run.ID(), result, err)
			}
		}
	}
	insured := func(result string) bool { return strings.HasPrefix(result, "insured ") }
	not := func(result string) bool { return !insured(result) }
	either := func(string) bool { return true }

	stopOld := work("1")
	old := start("old", 4)
	stopNew := work("2")
	defer func() { stopNew() }()
	mixed := start("mixed", 6)
	finish(old[:2], not)
	finish(mixed[:3], either)
	stopOld()
	finish(old[2:], not)
	finish(mixed[3:], either)
	finish(start("new", 2), insured)
}

// The test proves that flowgen breaking accepts the change with Version and refuses it without
// Version. The test commits the change on top of the old release.
func TestRolling_BreakingRefusesTheChangeWithoutVersion(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	read := func(release, name string) string {
		text, err := os.ReadFile(filepath.Join("rolling", release, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	dir := usermodule.New(t, map[string]string{
		"orders/orders.go": read("testdata/release1", "orders.go"), "orders/flow_gen.go": read("testdata/release1", "flow_gen.go"),
	})
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."},
		{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "release 1"},
	} {
		cmd := exec.CommandContext(limited(t), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	compare := func(orders string) *breaking.Report {
		usermodule.Write(t, dir, "orders/orders.go", orders)
		usermodule.Write(t, dir, "orders/flow_gen.go", read("orders", "flow_gen.go"))
		report, err := breaking.Run(limited(t), breaking.Config{Dir: dir, Patterns: []string{"./..."}})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	good := read("orders", "orders.go")
	if report := compare(good); report.Workflows != 1 || report.Breaks(false) {
		t.Errorf("the change with Version: %d workflows, %v", report.Workflows, report.Changes)
	}
	const version = `if workflow.Version(ctx, "insure", 1) >= 1 {`
	if !strings.Contains(good, version) {
		t.Fatalf("release 2 does not have %s", version)
	}
	report := compare(strings.Replace(good, version, "{", 1))
	if !report.Breaks(false) || !strings.Contains(report.Changes[0].String(), "breaks: orders.fulfil: step orders.insure") {
		t.Errorf("the change without Version: %v", report.Changes)
	}
}
