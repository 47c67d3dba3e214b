// Package document reviews documents until there is a verdict.
package document

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Comment is a remark, or a verdict.
type Comment struct {
	Author, Text string
	Accept       bool
}

// What a review hears and shows.
var (
	Comments = workflow.NewTopic[Comment]("comments")
	State    = workflow.NewValue[string]("state")
)

var word = regexp.MustCompile(`[A-Za-z]+`)

//flow:step
func remind(ctx context.Context, doc string, day int) error { return ctx.Err() }

// review gathers comments, and reminds once a day.
//
//flow:workflow
func review(ctx workflow.Context, doc string) ([]Comment, error) {
	var comments []Comment
	for day := 1; day <= 14; {
		State.Set(ctx, fmt.Sprintf("%d comments", len(comments)))
		comment, daily := Comments.Case(), workflow.After(24*time.Hour)
		won, err := workflow.Select(ctx, comment, daily)
		if err != nil {
			return comments, err
		}
		switch won {
		case comment:
			c := comment.Value()
			if len(word.FindAllString(c.Text, -1)) > 0 {
				comments = append(comments, c)
			}
			if c.Accept {
				return comments, nil
			}
		case daily:
			if err := Remind(ctx, doc, day); err != nil {
				return comments, err
			}
			day++
		}
	}
	return comments, errors.New("nobody accepted " + doc)
}
