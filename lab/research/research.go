package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
)

// Page is what a source says.
type Page struct {
	Source string `json:"source"`
	Text   string `json:"text"`
}

// Report is what becomes of a question.
type Report struct {
	Title   string   `json:"title"`
	Text    string   `json:"text"`
	Sources []string `json:"sources"`
}

// Net is what the library allows to all who ask it: two requests at a time, fifty in a second.
var Net = limit.New("research.net", limit.Config{AtOnce: 2, Rate: 50, Per: time.Second})

// research answers a question: it asks the library for sources, fetches them at the same time as
// far as the library allows it, sums each up as soon as all are there, lets a reviewer look at the
// summaries, if the reader is strict, and writes a report, with what the reviewer has said or without.
//
//flow:dag
type research struct {
	Question string `json:"question"`
	Strict   bool   `json:"strict"`
	library  *client
}

// plan asks which sources there are.
//
//flow:step
func (r *research) plan(ctx context.Context) ([]string, error) {
	var sources []string
	err := r.library.ask(ctx, "/sources", r.Question, &sources)
	return sources, err
}

// fetch gets a source. The library may say that it has too much to do: then all who use Net wait.
//
//flow:step each=plan uses=Net retries=9 backoff=constant(20ms)
func (r *research) fetch(ctx context.Context, plan string) (Page, error) {
	page := Page{Source: plan}
	err := r.library.ask(ctx, "/page", plan, &page.Text)
	return page, err
}

// summarise says what a page is about.
//
//flow:step each=fetch
func (r *research) summarise(ctx context.Context, fetch Page) (string, error) {
	first, _, _ := strings.Cut(fetch.Text, ".")
	return fmt.Sprintf("%s [%s].", first, fetch.Source), nil
}

// strict says whether there is a review.
func (r *research) strict() bool { return r.Strict }

// review asks for an opinion. A report without one is better than none.
//
//flow:step if=strict onfail=skip retries=5 backoff=constant(20ms)
func (r *research) review(ctx context.Context, summarise []string) (string, error) {
	var opinion string
	err := r.library.ask(ctx, "/review", strings.Join(summarise, " "), &opinion)
	return opinion, err
}

// write makes a report of the summaries.
//
//flow:step
func (r *research) write(ctx context.Context, plan, summarise []string, review *string) (Report, error) {
	report := Report{Title: r.Question, Text: strings.Join(summarise, " "), Sources: plan}
	if review != nil {
		report.Text += " " + *review
	}
	return report, nil
}
