package step_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"

	"github.com/flowgen/flowgen/examples/guide/steps"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// authorizer passes the principal and the role of an HTTP request to the runs that the request
// starts, and permits only cashiers to charge customers.
type authorizer struct{}

type requestKey struct{}

// Wrap makes the request available to InterceptClient. A real program verifies the headers first.
func (authorizer) Wrap(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Header)))
	})
}

// InterceptClient sets the principal and the role of what the client sends.
func (authorizer) InterceptClient(ctx context.Context, _ *workflow.ClientCall, next func(context.Context) error) error {
	if h, ok := ctx.Value(requestKey{}).(http.Header); ok {
		ctx = workflow.OnBehalfOf(ctx, h.Get("X-User"))
		ctx = workflow.WithAttribute(ctx, "role", h.Get("X-Role"))
	}
	return next(ctx)
}

// InterceptStep checks the role, which is in the log of the run.
func (authorizer) InterceptStep(ctx context.Context, call step.Call, next func(context.Context) error) error {
	from := step.Attributes(ctx)
	if call.Step == "steps.charge" && from["role"] != "cashier" {
		return step.Fatal(fmt.Errorf("%s may not charge customers: %w", from["principal"], fs.ErrPermission))
	}
	return next(ctx)
}

// An interceptor passes the principal of an HTTP request to the run that it starts, and a step
// checks it, on whatever worker and however much later it is executed.
func ExampleInterceptor_authorization() {
	var auth authorizer
	bank := &steps.Bank{Book: func(context.Context, string, string, int64) (string, error) { return "p-1", nil }}
	client, stop := serve(&steps.Archive{}, bank, courier, auth)
	defer stop()
	site := httptest.NewServer(auth.Wrap(func(w http.ResponseWriter, r *http.Request) {
		receipt, err := steps.Sell.Execute(r.Context(), client, steps.Order{ID: "o1", Customer: "ada", Address: "12 Row"})
		switch {
		case errors.Is(err, fs.ErrPermission):
			http.Error(w, "forbidden", http.StatusForbidden)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_, _ = fmt.Fprintln(w, receipt.Payment)
		}
	}))
	defer site.Close()
	for _, role := range []string{"cashier", "visitor"} {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, site.URL, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		request.Header.Set("X-User", "grace")
		request.Header.Set("X-Role", role)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(role, answer.StatusCode, answer.Body.Close())
	}
	// Output:
	// cashier 200 <nil>
	// visitor 403 <nil>
}
