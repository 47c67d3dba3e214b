package invoke_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// snapshot returns the whole contents of the store. Its time is cleared.
func snapshot(w *flowtest.World) *store.Snapshot {
	w.T.Helper()
	i, ok := store.As[store.Inspector](w.Store)
	if !ok {
		w.T.Fatal("the store cannot be inspected")
	}
	s, err := i.Inspect(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	s.Now = time.Time{}
	return s
}

// resign replaces the signature of a request by one with another time, secret or run.
func resign(r *http.Request, key []byte, at time.Time, run string) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	invoke.Sign(r.Header, key, at, run, body)
}

func TestOPS7_RefusedInvocationsChangeNothing(t *testing.T) {
	other := flowtest.Flow[int, int]("invoke.other")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		h := handler(w, invoke.Config{}, five, add)
		run := flowtest.Start(w, fives, 1)
		unserved := flowtest.Start(w, other, 1)
		queued := flowtest.Start(w, fives, 1, workflow.WithQueue("elsewhere"))
		elsewhere := pinned(w)
		ended := flowtest.Start(w, fives, 2)
		if a := ask(t, h, ended.ID()); a.Status != invoke.StatusDone {
			t.Fatalf("answer %+v, want done", a)
		}
		owned := flowtest.Start(w, fives, 3)
		own(w, owned.ID())
		sleeper := flowtest.Start(w, fives, 4, workflow.WithDelay(time.Hour))
		replayed := request(t, sleeper.ID())
		copied := replayed.Clone(t.Context())
		copied.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"run":%q}`, sleeper.ID())))
		if a := send(t, h, replayed); a.Status != invoke.StatusParked || a.Due == nil || time.Until(*a.Due) < 50*time.Minute {
			t.Errorf("answer %+v for a delayed run, want parked in an hour", a)
		}
		before := snapshot(w)

		now := time.Now()
		for name, c := range map[string]struct {
			change func(r *http.Request)
			run    event.RunID
			status int
			code   string
		}{
			"GET":              {change: func(r *http.Request) { r.Method = http.MethodGet }, status: 405, code: invoke.CodeMethod},
			"form":             {change: func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, status: 415, code: invoke.CodeContentType},
			"no content type":  {change: func(r *http.Request) { r.Header.Del("Content-Type") }, status: 415, code: invoke.CodeContentType},
			"no signature":     {change: func(r *http.Request) { r.Header.Del(invoke.HeaderSignature) }, status: 401, code: invoke.CodeSignature},
			"half a signature": {change: func(r *http.Request) { r.Header.Set(invoke.HeaderSignature, "v1=00") }, status: 401, code: invoke.CodeSignature},
			"not hexadecimal":  {change: func(r *http.Request) { r.Header.Set(invoke.HeaderSignature, "v1=zz") }, status: 401, code: invoke.CodeSignature},
			"other version": {change: func(r *http.Request) {
				r.Header.Set(invoke.HeaderSignature, "v2="+r.Header.Get(invoke.HeaderSignature)[3:])
			}, status: 401, code: invoke.CodeSignature},
			"no time":            {change: func(r *http.Request) { r.Header.Del(invoke.HeaderTime) }, status: 401, code: invoke.CodeSignature},
			"other time":         {change: func(r *http.Request) { r.Header.Set(invoke.HeaderTime, fmt.Sprint(now.UnixMilli()+1000)) }, status: 401, code: invoke.CodeSignature},
			"no nonce":           {change: func(r *http.Request) { r.Header.Del(invoke.HeaderNonce) }, status: 401, code: invoke.CodeSignature},
			"other nonce":        {change: func(r *http.Request) { r.Header.Set(invoke.HeaderNonce, strings.Repeat("0", 32)) }, status: 401, code: invoke.CodeSignature},
			"huge nonce":         {change: func(r *http.Request) { r.Header.Set(invoke.HeaderNonce, strings.Repeat("0", 1<<16)) }, status: 401, code: invoke.CodeSignature},
			"other body":         {change: func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"run": %q}`, run.ID()))) }, status: 401, code: invoke.CodeSignature},
			"other secret":       {change: func(r *http.Request) { resign(r, bytes.Repeat([]byte("x"), 32), now, string(run.ID())) }, status: 401, code: invoke.CodeSignature},
			"signed for another": {change: func(r *http.Request) { resign(r, secret, now, string(owned.ID())) }, status: 401, code: invoke.CodeSignature},
			"old":                {change: func(r *http.Request) { resign(r, secret, now.Add(-6*time.Minute), string(run.ID())) }, status: 401, code: invoke.CodeExpired},
			"from the future":    {change: func(r *http.Request) { resign(r, secret, now.Add(6*time.Minute), string(run.ID())) }, status: 401, code: invoke.CodeExpired},
			"replayed":           {change: func(r *http.Request) { r.Header, r.Body = copied.Header, copied.Body }, status: 409, code: invoke.CodeReplayed},
			"large": {change: func(r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat(" ", 1<<20))), -1
			}, status: 413, code: invoke.CodeTooLarge},
			"announced as large": {change: func(r *http.Request) { r.ContentLength = 1 << 40 }, status: 413, code: invoke.CodeTooLarge},
			"not JSON":           {change: func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("run")) }, status: 400, code: invoke.CodeMalformed},
			"not an ID":          {run: "wrun_1", status: 400, code: invoke.CodeMalformed},
			"unknown run":        {run: event.NewRunID(now, 1), status: 404, code: invoke.CodeUnknownRun},
			"ended run":          {run: ended.ID(), status: 410, code: invoke.CodeEnded},
			"owned run":          {run: owned.ID(), status: 409, code: invoke.CodeOwned},
			"other workflow":     {run: unserved.ID(), status: 422, code: invoke.CodeUnserved},
			"other queue":        {run: queued.ID(), status: 422, code: invoke.CodeUnserved},
			"other build":        {run: elsewhere.ID(), status: 409, code: invoke.CodeWrongBuild},
		} {
			if c.run == "" {
				c.run = run.ID()
			}
			r := request(t, c.run)
			if c.change != nil {
				c.change(r)
			}
			a := send(t, h, r)
			if a.status != c.status || a.code() != c.code {
				t.Errorf("%s: status %d and error %+v, want %d and %s", name, a.status, a.Error, c.status, c.code)
			}
			if a.Error != nil && (a.Error.Message == "" || a.Error.Fix == "") {
				t.Errorf("%s: the error %+v does not name the problem and the fix", name, a.Error)
			}
		}
		if diff := cmp.Diff(before, snapshot(w)); diff != "" {
			t.Errorf("refused invocations changed the store:\n%s", diff)
		}
		if a := ask(t, h, run.ID()); a.Status != invoke.StatusDone {
			t.Errorf("answer %+v after all, want done", a)
		}
	})
}

// pinned starts a run that is pinned to another build.
func pinned(w *flowtest.World) *workflow.Run[int] {
	w.T.Helper()
	st := &flowtest.Between{Store: w.Store, Around: func(_ context.Context, op string, req any, do func() error) error {
		if op == "create" {
			req.([]store.Create)[0].Route.Queue = event.PinnedQueue(workflow.DefaultQueue, "other")
		}
		return do()
	}}
	run, err := fives.Start(w.Ctx, workflow.NewClient(st, workflow.ClientConfig{}), 1)
	flowtest.Order(w.T, err)
	return run
}

// own makes a session that never executes anything own a run.
func own(w *flowtest.World, run event.RunID) {
	w.T.Helper()
	p := int(run.Slot()) % w.Store.Partitions()
	if err := w.Store.OpenSession(w.Ctx, store.Session{ID: "other", Partition: p, TTL: time.Hour}); err != nil {
		w.T.Fatal(err)
	}
	if _, err := w.Store.ClaimRun(w.Ctx, p, "other", event.NewToken(), run); err != nil {
		w.T.Fatal(err)
	}
}

// TestOPS7_ASlowBodyEndsInTime proves that a client that sends its body byte by byte occupies a
// connection for a bounded time.
func TestOPS7_ASlowBodyEndsInTime(t *testing.T) {
	w := flowtest.NewMemory(t)
	f := function(w, invoke.Config{}, five, add)
	run := flowtest.Start(w, fives, 1)
	before := snapshot(w)
	r := request(t, run.ID())
	conn, err := (&net.Dialer{}).DialContext(w.Ctx, "tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var head bytes.Buffer
	fmt.Fprintf(&head, "POST / HTTP/1.1\r\nHost: f\r\nContent-Length: 1000\r\n")
	_ = r.Header.Write(&head)
	head.WriteString("\r\n{")
	if _, err := conn.Write(head.Bytes()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := conn.Write([]byte(" ")); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(flowtest.Patience))
	got, err := io.ReadAll(conn)
	if !strings.HasPrefix(string(got), "HTTP/1.1 408 ") || !strings.Contains(string(got), invoke.CodeTooSlow) {
		t.Errorf("answer %q (%v), want the status 408", got, err)
	}
	if diff := cmp.Diff(before, snapshot(w)); diff != "" {
		t.Errorf("a slow request changed the store:\n%s", diff)
	}
}

// TestOPS7_TwoInvocationsOfARunExecuteItOnce proves that concurrent requests for a run execute it
// once.
func TestOPS7_TwoInvocationsOfARunExecuteItOnce(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		seen := &flowtest.Seen[int]{}
		h := handler(w, invoke.Config{}, five, addStep.As(func(_ context.Context, n int) (int, error) { seen.Add(n); return n + 1, nil }))
		for range 20 {
			run := flowtest.Start(w, fives, 0)
			answers := make(chan answer, 4)
			for range cap(answers) {
				r := request(t, run.ID())
				go func() {
					rec := httptest.NewRecorder()
					h.ServeHTTP(rec, r)
					answers <- answer{status: rec.Code}
				}()
			}
			done := 0
			for range cap(answers) {
				switch a := <-answers; a.status {
				case http.StatusOK:
					done++
				case http.StatusConflict, http.StatusGone:
				default:
					t.Errorf("status %d", a.status)
				}
			}
			if done != 1 {
				t.Errorf("%d of %d invocations executed the run, want 1", done, cap(answers))
			}
			flowtest.Result(w, run)
		}
		if n := len(seen.Get()); n != 100 {
			t.Errorf("%d attempts, want 100", n)
		}
		w.Healthy()
	})
}

// TestOPS7_ARequestThatEndsBeforeItsInvocationExecutesNothing proves that a function with a timeout
// that is too short for its budget begins nothing, and says what to change.
func TestOPS7_ARequestThatEndsBeforeItsInvocationExecutesNothing(t *testing.T) {
	w := flowtest.NewMemory(t)
	h := handler(w, invoke.Config{Budget: time.Minute}, five, add)
	run := flowtest.Start(w, fives, 1)
	before := snapshot(w)
	for _, left := range []time.Duration{-time.Second, 30 * time.Second, time.Minute} {
		for _, id := range []event.RunID{run.ID(), ""} { // A function that would refuse runs does not announce itself.
			ctx, cancel := context.WithTimeout(t.Context(), left)
			a := send(t, h, request(t, id).WithContext(ctx))
			cancel()
			if a.code() != invoke.CodeDeadline || a.status != http.StatusInternalServerError || !strings.Contains(a.Error.Fix, "15s") {
				t.Errorf("a request of %v for %q: answer %+v, want an error %s", left, id, a, invoke.CodeDeadline)
			}
		}
	}
	if diff := cmp.Diff(before, snapshot(w)); diff != "" {
		t.Errorf("refused requests changed the store:\n%s", diff)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 75*time.Second)
	defer cancel()
	if a := send(t, h, request(t, run.ID()).WithContext(ctx)); a.Status != invoke.StatusDone {
		t.Errorf("a request of the budget and 15 s: answer %+v, want done", a)
	}
}

// TestOPS7_SecretsAreReplacedWithoutAGap accepts requests of the old and of the new secret while both
// are configured.
func TestOPS7_SecretsAreReplacedWithoutAGap(t *testing.T) {
	w := flowtest.NewMemory(t)
	old, fresh := bytes.Repeat([]byte("o"), 32), bytes.Repeat([]byte("n"), 32)
	for name, c := range map[string]struct {
		secrets [][]byte
		accepts map[string]bool
	}{
		"before":   {[][]byte{old}, map[string]bool{"o": true, "n": false}},
		"meantime": {[][]byte{fresh, old}, map[string]bool{"o": true, "n": true}},
		"after":    {[][]byte{fresh}, map[string]bool{"o": false, "n": true}},
	} {
		h, err := invoke.Handler(w.Client, registers(five, add), invoke.Config{Secrets: c.secrets})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range c.accepts {
			run := flowtest.Start(w, fives, 1)
			r := request(t, run.ID())
			resign(r, bytes.Repeat([]byte(key), 32), time.Now(), string(run.ID()))
			if a := send(t, h, r); (a.Status == invoke.StatusDone) != want || (a.code() == invoke.CodeSignature) == want {
				t.Errorf("%s: secret %q: answer %+v, want accepted %t", name, key, a, want)
			}
		}
	}
}
