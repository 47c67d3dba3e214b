package questions_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// double answers n payloads of a hook with twice their value. After that it waits for a number.
var (
	doubles = flowtest.Flow[int, int]("doubles")
	double  = flowtest.As(doubles, func(ctx workflow.Context, n int) (int, error) {
		hook, err := flowtest.Paid.Open(ctx, workflow.RespondWith(20*time.Second))
		if err != nil {
			return 0, err
		}
		flowtest.Token.Set(ctx, hook.Token())
		for range n {
			v, err := hook.Receive(ctx)
			if err != nil {
				return 0, err
			}
			if err := hook.Answer(ctx, 2*v); err != nil {
				return 0, err
			}
		}
		hook.Dispose(ctx)
		return flowtest.Numbers.Receive(ctx)
	})
)

// call sends a request to a hook and returns the body of the answer. The body is empty if the hook
// gives no answer.
func call(w *flowtest.World, c *workflow.Client, token, body string, opts ...workflow.SendOption) (string, error) {
	got, err := c.CallHook(w.Ctx, token, workflow.HookRequest{Body: []byte(body)}, opts...)
	if err != nil {
		return "", err
	}
	r, ok, err := got.Answer(w.Ctx)
	if err == nil && ok && (r.Status != 0 || r.Header["Content-Type"] != "application/json") {
		err = fmt.Errorf("the answer is %+v", r)
	}
	return string(r.Body), err
}

func TestOPS3_ARequestToAHookGetsTheAnswerOfTheWorkflow(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{}, double)
		run := flowtest.Start(w, doubles, 12)
		token := w.TokenOf(run)
		other := flowtest.NewClient(w.Store, workflow.ClientConfig{})
		var callers sync.WaitGroup
		for n := range 10 { // for each key, two concurrent requests
			for range 2 {
				callers.Go(func() {
					if got, err := call(w, other, token, fmt.Sprint(n), workflow.IdempotencyKey(fmt.Sprint(n))); got != fmt.Sprint(2*n) || err != nil {
						t.Errorf("%d: got %q, %v", n, got, err)
					}
				})
			}
		}
		callers.Wait()
		first.Stop()
		late := make(chan string, 1)
		go func() { // asks while no worker serves the run
			got, err := call(w, other, token, "50", workflow.IdempotencyKey("late"))
			late <- fmt.Sprint(got, err)
		}()
		w.Eventually("it is in the inbox", func() bool { return w.Inbox(run) == 1 })
		w.Work(worker.Config{}, double)
		if got := <-late; got != "100<nil>" {
			t.Errorf("after another worker came: got %s", got)
		}
		if got, err := call(w, other, token, "7"); got != "14" || err != nil {
			t.Errorf("without a key: got %q, %v", got, err)
		}
		w.Reach(run, event.HookDisposed, 1)
		again := func(when string) {
			t.Helper()
			if got, err := call(w, w.Client, token, "-1", workflow.IdempotencyKey("3")); got != "6" || err != nil {
				t.Errorf("again, %s: got %q, %v", when, got, err)
			}
			if _, err := call(w, w.Client, token, "1", workflow.IdempotencyKey("new")); !errors.Is(err, workflow.ErrHookDisposed) {
				t.Errorf("another, %s: got %v, want ErrHookDisposed", when, err)
			}
		}
		again("after the hook was closed")
		w.Send(run, 1)
		flowtest.Result(w, run)
		again("after the run has ended")
		log := w.Log(run)
		received := flowtest.Filter(log, event.HookReceived)
		answered := flowtest.Filter(log, event.HookAnswered)
		if len(received) != 12 || len(answered) != 12 {
			t.Fatalf("the log has %d payloads and %d answers, want 12 of each", len(received), len(answered))
		}
		for i, e := range answered {
			if e.Key != string(received[i].Item) || e.Token != token || e.Name != "paid" || e.Ref != 0 {
				t.Errorf("answer %d: got %+v", i, e)
			}
		}
	})
}

func TestOPS3_ARequestThatWasNotAnsweredInTimeIsAcceptedAndAnsweredToWhoeverAsksAgain(t *testing.T) {
	slow := flowtest.Flow[int, int]("answers-late")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(slow, func(ctx workflow.Context, _ int) (int, error) {
			hook, err := flowtest.Paid.Open(ctx, workflow.RespondWith(50*time.Millisecond))
			if err != nil {
				return 0, err
			}
			flowtest.Token.Set(ctx, hook.Token())
			v, err := hook.Receive(ctx)
			if err != nil {
				return 0, err
			}
			if _, err := flowtest.Numbers.Receive(ctx); err != nil {
				return 0, err
			}
			return v, hook.Answer(ctx, workflow.HookResponse{Status: 201, Header: map[string]string{"location": "/orders/7"}, Body: []byte("\xff\x00made")})
		}))
		run := flowtest.Start(w, slow, 0)
		token := w.TokenOf(run)
		key := workflow.IdempotencyKey("call")
		for range 2 {
			got, err := w.Client.CallHook(w.Ctx, token, workflow.HookRequest{Body: []byte("4")}, key)
			if err != nil || got.Respond != 50*time.Millisecond || got.Run != run.ID() {
				t.Fatalf("got %+v, %v", got, err)
			}
			if r, ok, err := got.Answer(w.Ctx); ok || err != nil {
				t.Fatalf("before there is one: got %+v, %v", r, err)
			}
		}
		w.Send(run, 1)
		if got := flowtest.Result(w, run); got != 4 {
			t.Errorf("got %d", got)
		}
		again, err := w.Client.CallHook(w.Ctx, token, workflow.HookRequest{Body: []byte("4")}, key)
		if err != nil {
			t.Fatal(err)
		}
		r, ok, err := again.Answer(w.Ctx)
		want := workflow.HookResponse{Status: 201, Header: map[string]string{"location": "/orders/7"}, Body: []byte("\xff\x00made")}
		if diff := cmp.Diff(want, r); diff != "" || !ok || err != nil {
			t.Errorf("%v, %v (-want +got):\n%s", ok, err, diff)
		}
	})
}

func TestOPS3_EachBranchAnswersWhatItHasReceived(t *testing.T) {
	each := flowtest.Flow[int, int]("answers-each")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(each, func(ctx workflow.Context, n int) (int, error) {
			hook, err := flowtest.Paid.Open(ctx, workflow.RespondWith(20*time.Second))
			if err != nil {
				return 0, err
			}
			flowtest.Token.Set(ctx, hook.Token())
			var all []*workflow.Future[int]
			for range n {
				c := hook.Case()
				if _, err := workflow.Select(ctx, c, workflow.After(time.Hour)); err != nil {
					return 0, err
				}
				all = append(all, workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
					if err := workflow.Sleep(ctx, time.Duration(c.Value())*10*time.Millisecond); err != nil { // answers in another order than the payloads arrived
						return 0, err
					}
					return c.Value(), hook.Answer(ctx, -c.Value())
				}))
			}
			for _, f := range all {
				if _, err := f.Get(ctx); err != nil {
					return 0, err
				}
			}
			if err := hook.Answer(ctx, 0); !errors.Is(err, workflow.ErrHookAnswered) {
				return 0, fmt.Errorf("a second answer to the last one: got %w", err)
			}
			return n, nil
		}))
		run := flowtest.Start(w, each, 5)
		token := w.TokenOf(run)
		var callers sync.WaitGroup
		for _, n := range []int{5, 4, 3, 2, 1} {
			callers.Go(func() {
				if got, err := call(w, w.Client, token, fmt.Sprint(n)); got != fmt.Sprint(-n) || err != nil {
					t.Errorf("%d: got %q, %v", n, got, err)
				}
			})
		}
		callers.Wait()
		if got := flowtest.Result(w, run); got != 5 {
			t.Errorf("got %d", got)
		}
	})
}

func TestOPS3_AnOldAnswerIsFoundInTheLog(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, double)
	const n = 64*64 + 1000 // more answers than the streams of answers keep
	run := flowtest.Start(w, doubles, n+1)
	token := w.TokenOf(run)
	if got, err := call(w, w.Client, token, "21", workflow.IdempotencyKey("first")); got != "42" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	for i := range n {
		w.Resume(token, i)
	}
	w.Reach(run, event.HookAnswered, n+1)
	if got, err := call(w, w.Client, token, "21", workflow.IdempotencyKey("first")); got != "42" || err != nil {
		t.Errorf("again: got %q, %v", got, err)
	}
}

func TestOPS3_AnAnswerThatCannotBeIsRefusedWhereItIsGiven(t *testing.T) {
	refuses := flowtest.Flow[int, int]("refuses-answers")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(refuses, func(ctx workflow.Context, _ int) (int, error) {
		hook, err := flowtest.Paid.Open(ctx, workflow.RespondWith(flow.MaxRespond))
		if err != nil {
			return 0, err
		}
		flowtest.Token.Set(ctx, hook.Token())
		if _, err := hook.Receive(ctx); err != nil {
			return 0, err
		}
		for what, r := range map[string]workflow.HookResponse{
			"a status":  {Status: 101},
			"another":   {Status: 600},
			"a cookie":  {Header: map[string]string{"Set-Cookie": "a=b"}},
			"a policy":  {Header: map[string]string{"content-security-policy": ""}},
			"a newline": {Header: map[string]string{"X-A": "b\r\nSet-Cookie: c"}},
			"a name":    {Header: map[string]string{"X-A:b": "c"}},
		} {
			if err := hook.Answer(ctx, r); !flowtest.IsInvalid(err, "answer of hook paid") {
				t.Errorf("%s: got %v, want an *InvalidError", what, err)
			}
		}
		if err := hook.Answer(ctx, strings.Repeat("x", workflow.DefaultMaxPayload)); !errors.As(err, new(*workflow.PayloadError)) {
			t.Errorf("too large: got %v, want a *PayloadError", err)
		}
		if err := hook.Answer(ctx, func() {}); !errors.As(err, new(*workflow.PayloadError)) {
			t.Errorf("no JSON: got %v, want a *PayloadError", err)
		}
		return 0, hook.Answer(ctx, &workflow.HookResponse{Status: 204})
	}))
	run := flowtest.Start(w, refuses, 0)
	got, err := w.Client.CallHook(w.Ctx, w.TokenOf(run), workflow.HookRequest{Body: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	if r, ok, err := got.Answer(w.Ctx); r.Status != 204 || !ok || err != nil {
		t.Errorf("got %+v, %v, %v", r, ok, err)
	}
}

func TestOPS3_AnAnswerThatNobodyWaitsForIsAMistakeOfTheProgram(t *testing.T) {
	for what, program := range map[string]func(workflow.Context) error{
		"RespondWith": func(ctx workflow.Context) error {
			hook, err := flowtest.Paid.Open(ctx)
			if err != nil {
				return err
			}
			return hook.Answer(ctx, 1)
		},
		"has received nothing": func(ctx workflow.Context) error {
			hook, err := flowtest.Paid.Open(ctx, workflow.RespondWith(time.Second))
			if err != nil {
				return err
			}
			return hook.Answer(ctx, 1)
		},
	} {
		mistakes := flowtest.Flow[int, int]("mistakes")
		w := flowtest.NewMemory(t)
		w.Work(worker.Config{}, flowtest.As(mistakes, func(ctx workflow.Context, _ int) (int, error) { return 0, program(ctx) }))
		if err := flowtest.Failure(w, flowtest.Start(w, mistakes, 0)); err.Code != event.CodePanic || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestOPS3_OptionsForRequestsAreCheckedWhenTheHookIsOpened(t *testing.T) {
	checks := flowtest.Flow[int, int]("checks-options")
	web := workflow.NewHook[workflow.HookRequest]("web")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(checks, func(ctx workflow.Context, _ int) (int, error) {
		for what, o := range map[string]workflow.HookOption{
			"none": workflow.RespondWith(0), "negative": workflow.RespondWith(-time.Second), "long": workflow.RespondWith(flow.MaxRespond + 1),
			"short": workflow.RespondWith(time.Microsecond), "headers": workflow.KeepHeaders("X-A"),
		} {
			if _, err := flowtest.Paid.Open(ctx, o); !errors.As(err, new(*workflow.InvalidError)) {
				t.Errorf("%s: got %v, want an *InvalidError", what, err)
			}
		}
		for _, name := range []string{"", "a b", "a:b", "é", "cookie", strings.Repeat("x", 2000)} {
			if _, err := web.Open(ctx, workflow.KeepHeaders(name)); !errors.As(err, new(*workflow.InvalidError)) {
				t.Errorf("%.50q: got %.200v, want an *InvalidError", name, err)
			}
		}
		if _, err := web.Open(ctx, workflow.KeepHeaders(make([]string, 33)...)); !errors.As(err, new(*workflow.InvalidError)) {
			t.Errorf("33: got %v, want an *InvalidError", err)
		}
		return 1, nil
	}))
	flowtest.Result(w, flowtest.Start(w, checks, 0))
}

func TestOPS3_AHookOfRequestsTakesThemAsTheyAre(t *testing.T) {
	takes := flowtest.Flow[int, []workflow.HookRequest]("takes-requests")
	web := workflow.NewHook[workflow.HookRequest]("web")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(takes, func(ctx workflow.Context, n int) (all []workflow.HookRequest, err error) {
			hook, err := web.Open(ctx, workflow.KeepHeaders("X-Signature"), workflow.Describe(workflow.HookMeta{Title: "signed"}))
			if err != nil {
				return nil, err
			}
			flowtest.Token.Set(ctx, hook.Token())
			for range n {
				r, err := hook.Receive(ctx)
				if err != nil {
					return nil, err
				}
				all = append(all, r)
			}
			return all, nil
		}))
		run := flowtest.Start(w, takes, 4)
		token := w.TokenOf(run)
		info, err := w.Client.Hook(w.Ctx, token)
		if err != nil || !info.Request || info.Respond != 0 || info.Meta.Title != "signed" || !cmp.Equal(info.Headers, []string{"X-Signature"}) {
			t.Fatalf("got %+v, %v", info, err)
		}
		for _, r := range []workflow.HookRequest{
			{Query: map[string][]string{"a\xff": {"1", "\xfe"}}, Header: map[string][]string{"x-signature": {"s\xff"}, "Cookie": {"secret"}, "content-type": {"text/plain"}}, Body: []byte("{\n  \"a\": 9223372036854775808,\n\"a\":1}")},
			{Body: []byte{0xff, 0, 1}},
			{},
		} {
			if _, err := w.Client.CallHook(w.Ctx, token, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Client.SendToHook(w.Ctx, token, []byte(`{"body":"by hand"}`)); err != nil {
			t.Fatal(err)
		}
		if err := w.Client.SendToHook(w.Ctx, token, []byte(`{"body":7}`)); !errors.As(err, new(*workflow.PayloadError)) {
			t.Errorf("what is no request: got %v, want a *PayloadError", err)
		}
		want := []workflow.HookRequest{
			{Query: map[string][]string{"a\uFFFD": {"1", "\uFFFD"}}, Header: map[string][]string{"X-Signature": {"s\uFFFD"}, "Content-Type": {"text/plain"}}, Body: []byte("{\n  \"a\": 9223372036854775808,\n\"a\":1}")},
			{Body: []byte{0xff, 0, 1}},
			{Body: []byte{}},
			{Body: []byte("by hand")},
		}
		if diff := cmp.Diff(want, flowtest.Result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
