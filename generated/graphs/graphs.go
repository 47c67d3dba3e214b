// Package graphs holds workflows that are structs: their steps begin when those that they
// need have ended.
package graphs

import (
	"context"
	"errors"
	"strings"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// LLM answers prompts.
type LLM struct{ Prefix string }

// Page is what was found.
type Page struct{ Text string }

// Notes are a reviewer's.
type Notes struct{ Text string }

// Report is what was written.
type Report struct{ Title, Text string }

// Net is the network.
var Net = limit.New("graphs.net", limit.Config{})

// research answers a question from several pages.
//
//flow:dag onfail=finish timeout=1h priority=len(Question)
type research struct {
	Question string `json:"question"`
	Tone     string
	llm      *LLM
}

// plan says what to look for.
//
//flow:step
func (r *research) plan(ctx context.Context) ([]string, error) {
	return strings.Fields(r.Question), nil
}

//flow:step each=plan uses=Net
func (r *research) fetch(ctx context.Context, plan string) (Page, error) {
	return Page{r.llm.Prefix + plan}, nil
}

// review is for those who are strict.
//
//flow:step if=strict onfail=skip retries=3 backoff=constant(1ms)
func (r *research) review(ctx context.Context, fetch []Page) (Notes, error) {
	if len(fetch) > 3 {
		return Notes{}, errors.New("too much to read")
	}
	return Notes{"well done"}, nil
}

// strict is pure.
func (r *research) strict(fetch []Page) bool { return r.Tone == "strict" }

//flow:step
func (r *research) write(ctx context.Context, fetch []Page, review *Notes) (Report, error) {
	report := Report{Title: r.Question}
	for _, p := range fetch {
		report.Text += p.Text + "."
	}
	if review != nil {
		report.Text += review.Text
	}
	return report, nil
}

// nightly has no input, no dependency and no result.
//
//flow:dag
type nightly struct{}

//flow:step
func (nightly) sweep(ctx context.Context) error { return nil }

//flow:step after=sweep
func (nightly) count(ctx context.Context) (int, error) { return 3, nil }

//flow:step
func (nightly) tell(ctx context.Context, count int) error { return nil }

// study asks for a report, and for the shape of its title. Its signature has types that are
// generated from graphs.
//
//flow:workflow
func study(ctx workflow.Context, in ResearchInput) (ShapesResult, error) {
	report, err := Research.Child(ctx, in)
	if err != nil {
		return ShapesResult{}, err
	}
	return Shapes.Child(ctx, ShapesInput{N: len(report.Title)})
}
