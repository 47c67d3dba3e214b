package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
)

// Page is the content of a source of the library.
type Page struct {
	Source string `json:"source"`
	Text   string `json:"text"`
}

// Report is the answer to a question.
type Report struct {
	Title   string   `json:"title"`
	Text    string   `json:"text"`
	Sources []string `json:"sources"`
}

// Net is the limit for requests of all clients to the library. It allows two concurrent requests,
// and fifty requests per second.
var Net = limit.New("research.net", limit.Config{AtOnce: 2, Rate: 50, Per: time.Second})

// research answers a question. It requests a list of sources from the library, fetches them in
// parallel as far as the library allows, and summarizes all pages when they have arrived. If the
// reader is strict, a reviewer examines the summaries. Finally, it writes a report with or without
// a review.
//
//flow:dag
type research struct {
	Question string `json:"question"`
	Strict   bool   `json:"strict"`
	library  *client
}

// plan requests the list of sources.
//
//flow:step
func (r *research) plan(ctx context.Context) ([]string, error) {
	var sources []string
	err := r.library.ask(ctx, "/sources", r.Question, &sources)
	return sources, err
}

// fetch requests a source. If the library is overloaded, all users of Net wait.
//
//flow:step each=plan uses=Net retries=9 backoff=constant(20ms)
func (r *research) fetch(ctx context.Context, plan string) (Page, error) {
	page := Page{Source: plan}
	err := r.library.ask(ctx, "/page", plan, &page.Text)
	return page, err
}

// summarise summarizes a page.
//
//flow:step each=fetch
func (r *research) summarise(ctx context.Context, fetch Page) (string, error) {
	first, _, _ := strings.Cut(fetch.Text, ".")
	return fmt.Sprintf("%s [%s].", first, fetch.Source), nil
}

// strict reports whether the summaries are reviewed.
func (r *research) strict() bool { return r.Strict }

// review requests a review of the summaries. If this fails, the report has no review.
//
//flow:step if=strict onfail=skip retries=5 backoff=constant(20ms)
func (r *research) review(ctx context.Context, summarise []string) (string, error) {
	var opinion string
	err := r.library.ask(ctx, "/review", strings.Join(summarise, " "), &opinion)
	return opinion, err
}

// write returns a report with the summaries.
//
//flow:step
func (r *research) write(ctx context.Context, plan, summarise []string, review *string) (Report, error) {
	report := Report{Title: r.Question, Text: strings.Join(summarise, " "), Sources: plan}
	if review != nil {
		report.Text += " " + *review
	}
	return report, nil
}
