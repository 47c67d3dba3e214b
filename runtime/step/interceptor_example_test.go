package step_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/flowgen/flowgen/examples/guide/steps"
	"github.com/flowgen/flowgen/runtime/step"
)

// report is an error report.
type report struct {
	Run, Step, Message, Stack string
	Attempt                   int
}

// reporter sends panics of steps to a service for error reports.
type reporter struct{ url string }

// InterceptStep reports a panic and returns it, so that the attempt fails as it would without r.
func (r reporter) InterceptStep(ctx context.Context, call step.Call, next func(context.Context) error) error {
	err := next(ctx)
	if p, ok := errors.AsType[*step.PanicError](err); ok {
		if sent := r.send(ctx, report{string(call.RunID), call.Step, p.Error(), string(p.Stack), call.Attempt}); sent != nil {
			step.Logger(ctx).Error("a panic was not reported", "error", sent)
		}
	}
	return err
}

func (r reporter) send(ctx context.Context, what report) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// An interceptor reports panics with their stacks. The panic remains a failure of its attempt, and
// the retry succeeds.
func ExampleInterceptor() {
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got report
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%s, attempt %d: %s, stack names book: %v\n", got.Step, got.Attempt, got.Message, bytes.Contains([]byte(got.Stack), []byte("book")))
	}))
	defer service.Close()
	client, stop := serve(&steps.Archive{}, &steps.Bank{Book: book}, courier, reporter{service.URL})
	defer stop()
	receipt, err := steps.Sell.Execute(context.Background(), client, steps.Order{ID: "o1", Customer: "ada", Address: "12 Row"})
	fmt.Println(receipt.Payment, err)
	// Output:
	// steps.charge, attempt 1: panic: no ledger for ada, stack names book: true
	// p-1 <nil>
}

// book panics in the first attempt.
func book(ctx context.Context, _, customer string, _ int64) (string, error) {
	if step.Attempt(ctx) == 1 {
		panic("no ledger for " + customer)
	}
	return "p-1", nil
}
