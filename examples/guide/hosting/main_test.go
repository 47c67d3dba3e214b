package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOPS7_ProgramReportsItsHealth proves that the program reads the URL of its store from the file
// of a secret, that Kubernetes and systemd find it ready, that it works, and that systemd learns of
// its end.
func TestOPS7_ProgramReportsItsHealth(t *testing.T) {
	dir, err := os.MkdirTemp("", "h") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file, secret, socket := filepath.Join(dir, "orders.db"), filepath.Join(dir, "store"), filepath.Join(dir, "notify")
	if err := os.WriteFile(secret, []byte("sqlite:"+file+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("FLOWGEN_STORE_FILE", secret)
	t.Setenv("NOTIFY_SOCKET", socket)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, l) }()
	notified(t, manager, "READY=1")
	for _, path := range []string{"/livez", "/readyz"} {
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d", path, answer.StatusCode)
		}
	}
	fastest(ctx, t, file)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	notified(t, manager, "STOPPING=1")
}

// notified fails the test if the next notification is not want.
func notified(t *testing.T, manager *net.UnixConn, want string) {
	t.Helper()
	if err := manager.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64)
	n, err := manager.Read(buffer)
	if got := string(buffer[:n]); got != want || err != nil {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// fastest executes a run of another process on the file.
func fastest(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	st, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer client.Close()
	if _, err := flows.Fastest.Execute(ctx, client, flows.FastestInput{A: "dhl", B: "ups"}); err != nil {
		t.Error(err)
	}
}
