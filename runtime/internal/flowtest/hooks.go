package flowtest

import "github.com/flowgen/flowgen/runtime/workflow"

// A hook for payments, and a workflow that publishes its token and takes payloads.
var (
	Paid  = workflow.NewHook[int]("paid")
	Token = workflow.NewValue[string]("token")
	Bills = Flow[int, []int]("bills") // takes that many payloads
	Bill  = As(Bills, func(ctx workflow.Context, n int) ([]int, error) {
		hook, err := Paid.Open(ctx)
		if err != nil {
			return nil, err
		}
		defer hook.Dispose(ctx)
		Token.Set(ctx, hook.Token())
		var all []int
		for range n {
			v, err := hook.Receive(ctx)
			if err != nil {
				return all, err
			}
			all = append(all, v)
		}
		return all, nil
	})
)

// TokenOf waits until a run has published its token, and returns it.
func (w *World) TokenOf(run workflow.Target) string {
	w.T.Helper()
	t, err := Token.Wait(w.Ctx, run)
	if err != nil {
		w.T.Fatal(err)
	}
	return t
}

// Resume sends a payload to a hook.
func (w *World) Resume(token string, v int, opts ...workflow.SendOption) {
	w.T.Helper()
	if err := Paid.Send(w.Ctx, w.Client, token, v, opts...); err != nil {
		w.T.Fatal(err)
	}
}
