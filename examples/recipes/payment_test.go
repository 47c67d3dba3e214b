package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/examples/recipes/payment"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// payRole settles an order in a separate process. Its arguments are the file of the store and the
// URL of the service.
func payRole(ctx context.Context, args []string) error {
	st, err := sqlitestore.Open(args[0])
	if err != nil {
		return err
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	id, err := payment.Settle(ctx, client, args[1], payment.Order{ID: "order-7", Cents: 4990})
	fmt.Println(id)
	return err
}

// The test proves that the customer is charged once although the process is killed after the charge
// and before the response. The next process sends a request with the same key.
func TestSTEP8_APaymentKilledBetweenChargeAndRecordIsChargedOnce(t *testing.T) {
	ctx := limited(t)
	pid := make(chan int, 1)
	service := &payment.Service{}
	service.Charged = func(requests int) {
		if requests == 1 {
			if p, err := os.FindProcess(<-pid); err != nil || p.Kill() != nil {
				t.Error("the process cannot be killed")
			}
			panic(http.ErrAbortHandler)
		}
	}
	server := httptest.NewServer(service)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "pay.db")
	var out strings.Builder
	process := func() *exec.Cmd {
		out.Reset()
		cmd := exec.CommandContext(ctx, os.Args[0], file, server.URL)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), roleOf+"=pay"), &out, os.Stderr
		return cmd
	}
	first := process()
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	pid <- first.Process.Pid
	if err := first.Wait(); err == nil || first.ProcessState.ExitCode() != -1 {
		t.Fatalf("the first process ended with %v and printed %q, want it killed", err, out.String())
	}
	if requests, charges := service.Counts(); requests != 1 || charges != 1 {
		t.Fatalf("killed after %d requests and %d charges, want 1 of each", requests, charges)
	}
	for range 2 { // The last process finds that the order has been paid.
		if err := process().Run(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != "charge-1\n" {
			t.Errorf("it is paid by %q, want charge-1", got)
		}
	}
	if requests, charges := service.Counts(); requests != 2 || charges != 1 {
		t.Errorf("%d requests and %d charges, want 2 and 1", requests, charges)
	}
}
