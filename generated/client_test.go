package generated_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/generated/clients"
	"github.com/flowgen/flowgen/generated/clients/geo"
	"github.com/flowgen/flowgen/generated/clients/money"
	"github.com/flowgen/flowgen/generated/clients/ordersclient"
	"github.com/flowgen/flowgen/generated/clients/rates"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
	"github.com/google/go-cmp/cmp"
)

// A program that links the client only works with a worker of the original in another process.
func TestGEN5_ClientStartsSendsAndReadsWhileAWorkerOfTheOriginalWorks(t *testing.T) {
	dir := t.TempDir()
	caller, file := filepath.Join(dir, "caller"), filepath.Join(dir, "flows.db")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", caller, "./clients/caller").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	st, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	workOriginal(t, workflow.NewClient(st, workflow.ClientConfig{}))
	cmd := exec.CommandContext(t.Context(), caller, file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("caller: %v\n%s", err, out)
	}
	want := "7: began as open, closed by ada for 12.50, red is hot\n" +
		"declined: began as open, declined true, gone false\n" +
		"gone: began as open, declined false, gone true\n"
	if d := cmp.Diff(want, string(out)); d != "" {
		t.Errorf("output of the caller (-want +got):\n%s", d)
	}
}

// workOriginal starts a worker that knows the original package only.
func workOriginal(t *testing.T, client *workflow.Client) {
	t.Helper()
	w := worker.New(client, worker.Config{})
	clients.Register(w)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("worker: %v", err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
}

func TestGEN5_ErrorsMatchTheOriginalAndTheCopyInOneProgram(t *testing.T) {
	client := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	workOriginal(t, client)
	fail := func(id string) error {
		run, err := ordersclient.Fulfil.Start(t.Context(), client, ordersclient.Order{ID: id, Rate: rates.Of(1)})
		if err != nil {
			t.Fatal(err)
		}
		if err := clients.Approval.Send(t.Context(), run, clients.Decision{}); err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(t.Context())
		return err
	}
	err := fail("declined")
	var original *clients.DeclinedError
	var copied *ordersclient.DeclinedError
	if !errors.As(err, &original) || original.Reason != "no money" || !errors.As(err, &copied) || copied.Reason != "no money" {
		t.Errorf("%v is %+v and %+v, want the same reason in both", err, original, copied)
	}
	if err := fail("gone"); !errors.Is(err, clients.ErrGone) || !errors.Is(err, ordersclient.ErrGone) {
		t.Errorf("%v matches the original %t and the copy %t, want both", err, errors.Is(err, clients.ErrGone), errors.Is(err, ordersclient.ErrGone))
	}
}

// The copies are stored as the originals are, in both directions.
func TestGEN5_CopiesAreStoredAsTheOriginals(t *testing.T) {
	var red clients.Color
	if err := red.UnmarshalText([]byte("RED")); err != nil {
		t.Fatal(err)
	}
	order := clients.Order{
		Base: clients.Base{Tenant: "acme"}, ID: "7", State: clients.Closed, Total: money.Of(995), Rate: rates.Of(7.5),
		Lines:  []clients.Page[clients.Line]{{Items: []clients.Line{{SKU: "a", N: 2}}, Next: &clients.Page[clients.Line]{Items: []clients.Line{{SKU: "b"}}}}},
		To:     geo.Point{X: geo.Far, Y: 3},
		Parent: &clients.Order{ID: "6"}, When: time.Unix(1, 0).UTC(), From: netip.MustParseAddr("10.0.0.1"),
		Labels: map[clients.Color]string{red: "hot"}, Sum: [4]byte{1, 2, 3, 4},
	}
	order.Region = "eu" // of an embedded type that nobody else can name
	want := marshal(t, order)
	var copied ordersclient.Order
	unmarshal(t, want, &copied)
	if d := cmp.Diff(string(want), string(marshal(t, copied))); d != "" {
		t.Errorf("the copy (-original +copy):\n%s", d)
	}
	var back clients.Order
	unmarshal(t, marshal(t, copied), &back)
	if d := cmp.Diff(string(want), string(marshal(t, back))); d != "" {
		t.Errorf("the original, read from the copy (-want +got):\n%s", d)
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unmarshal(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// Of this module the client links the runtime, and packages of types that cannot be copied.
func TestGEN5_ClientLinksNothingOfTheImplementation(t *testing.T) {
	const module = "github.com/flowgen/flowgen/"
	linked := []string{"internal/cron", "internal/environ", "internal/jsonschema", "internal/recent", "internal/spelling"} // by the runtime
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./clients/ordersclient").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for path := range strings.Lines(string(out)) {
		path, ours := strings.CutPrefix(strings.TrimSpace(path), module)
		switch {
		case path == "runtime/worker" || strings.HasSuffix(path, "store") && path != "runtime/store":
			got = append(got, path)
		case ours && !strings.HasPrefix(path, "runtime/") && !slices.Contains(linked, path):
			got = append(got, path)
		}
	}
	slices.Sort(got)
	if d := cmp.Diff([]string{"generated/clients/money", "generated/clients/ordersclient", "generated/clients/rates"}, got); d != "" {
		t.Errorf("packages that the client links (-want +got):\n%s", d)
	}
}
