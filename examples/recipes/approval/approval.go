// Package approval waits for the decision of a person. The person answers in the inbox of the web
// console. A program that has the token of the hook can answer as well.
//
//	go run ./examples/recipes approval
//
// The recipe shows the address of the inbox. It pays or refuses after you have answered there:
//
//	please decide: http://127.0.0.1:40123/inbox
//	expense-7: paid
//
// With -store sqlite:approval.db, the run and its hook survive the end of the program.
package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/admin/hooks"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Expense is an amount of money that an employee has spent for the company.
type Expense struct {
	ID, By, For string
	Cents       int64
}

// Decision is the answer that a run receives about its expense.
type Decision struct {
	Approved bool   `json:"approved"`
	Note     string `json:"note,omitempty"`
}

// Approval is the hook through which a run receives the decision about its expense.
var Approval = workflow.NewHook[Decision]("approval")

// form describes the fields of the form that the console shows.
var form = json.RawMessage(`{"type":"object","required":["approved"],"properties":{
	"approved":{"type":"boolean","title":"Approved"},"note":{"type":"string","title":"Note"}}}`)

// reimburse waits for a decision for at most three days. A waiting run occupies no worker.
//
//flow:workflow
func reimburse(ctx workflow.Context, e Expense) (string, error) {
	question, err := Approval.Open(ctx, workflow.Describe(workflow.HookMeta{
		Title:       fmt.Sprintf("%s wants %d.%02d for %s", e.By, e.Cents/100, e.Cents%100, e.For),
		Description: "The money is transferred at once.",
		Form:        form, Answerers: []string{"group:finance"},
	}))
	if err != nil {
		return "", err
	}
	defer question.Dispose(ctx)
	if err := Notify(ctx, e, question.Token()); err != nil {
		return "", err
	}
	d, err := question.Receive(ctx, workflow.Timeout(72*time.Hour))
	switch {
	case errors.Is(err, workflow.ErrReceiveTimeout):
		return "not decided in time", nil
	case err != nil:
		return "", err
	case !d.Approved:
		return "refused: " + d.Note, nil
	}
	return "paid", Transfer(ctx, e)
}

// Finance contains the dependencies of the steps.
type Finance struct {
	Notify   func(ctx context.Context, e Expense, token string) error
	Transfer func(ctx context.Context, e Expense) error
}

// notify notifies the approver, for example by a mail with a link.
//
//flow:step
func (f *Finance) notify(ctx context.Context, e Expense, token string) error {
	return f.Notify(ctx, e, token)
}

//flow:step
func (f *Finance) transfer(ctx context.Context, e Expense) error { return f.Transfer(ctx, e) }

// Handler serves the console to people, and /hooks/TOKEN to programs. This console accepts only
// browsers on the same machine. The recipe jwt shows a console with logins.
func Handler(client *workflow.Client) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(hooks.Prefix, hooks.New(client, hooks.Config{}))
	mux.Handle("/", console.New(admin.New(client), console.Config{}))
	return mux
}

// Run requests the decision about one expense and prints the outcome.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: Handler(client), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }() // Serve returns an error when the server is closed.
	defer func() { _ = server.Close() }()

	w := worker.New(client, worker.Config{})
	Register(w, &Finance{
		Notify:   func(context.Context, Expense, string) error { return nil },
		Transfer: func(context.Context, Expense) error { return nil },
	})
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { defer cancel(); worked <- w.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	e := Expense{ID: "expense-7", By: "Ann", For: "a train to Basel", Cents: 4720}
	run, err := Reimburse.Start(ctx, client, e, workflow.WithID(e.ID))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "please decide: http://%s/inbox\n", l.Addr())
	outcome, err := run.Result(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %s\n", e.ID, outcome)
	return err
}
