package flowtest

import "github.com/flowgen/flowgen/runtime/workflow"

// Paid is a hook for payments. Bills is a workflow that publishes the token of such a hook and
// takes payloads.
var (
	Paid  = workflow.NewHook[int]("paid")
	Token = workflow.NewValue[string]("token")
	Bills = Flow[int, []int]("bills") // the input is the number of payloads that it takes
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

// TokenOf waits until a run has published a token, and returns the token.
func (w *World) TokenOf(run workflow.Target) string {
	w.T.Helper()
	t, err := Token.Wait(w.Ctx, run)
	Order(w.T, err)
	return t
}

// Resume sends a payload to the hook with the given token.
func (w *World) Resume(token string, v int, opts ...workflow.SendOption) {
	w.T.Helper()
	Order(w.T, Paid.Send(w.Ctx, w.Client, token, v, opts...))
}
