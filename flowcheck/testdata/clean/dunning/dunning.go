// Package dunning reminds of a bill in a tone that grows harsher.
package dunning

import (
	"context"
	"errors"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Bill is not paid yet.
type Bill struct {
	ID, Customer string
	Cents        int
	Due          time.Time
}

// Paid says how much came in.
var Paid = workflow.NewTopic[int]("paid")

var letters = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("letter").Parse("Dear {{.Customer}}, {{.Cents}} are open"))
})

func letter(b Bill) (string, error) {
	var text strings.Builder
	err := letters().Execute(&text, b)
	return text.String(), err
}

//flow:step
func send(ctx context.Context, customer, text string, level int) error { return ctx.Err() }

//flow:step
func collect(ctx context.Context, id string) error { return ctx.Err() }

// dun sends three letters, and then somebody.
//
//flow:workflow
func dun(ctx workflow.Context, b Bill) (string, error) {
	if err := workflow.SleepUntil(ctx, b.Due); err != nil {
		return "", err
	}
	for level := range 3 {
		text, err := letter(b)
		if err != nil {
			return "", err
		}
		if err := Send(ctx, b.Customer, text, level+1); err != nil {
			return "", err
		}
		deadline := workflow.Now(ctx).Add(14 * 24 * time.Hour)
		for b.Cents > 0 && workflow.Now(ctx).Before(deadline) {
			cents, err := Paid.Receive(ctx, workflow.Timeout(deadline.Sub(workflow.Now(ctx))))
			if errors.Is(err, workflow.ErrReceiveTimeout) {
				break
			}
			if err != nil {
				return "", err
			}
			b.Cents -= cents
		}
		if b.Cents <= 0 {
			return "paid", nil
		}
	}
	return "collected", Collect(ctx, b.ID)
}
