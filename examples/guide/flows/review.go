package flows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Decision is the verdict that ends a review.
type Decision struct {
	By string `json:"by"`
	OK bool   `json:"ok"`
}

// The topics of messages to a review.
var (
	Verdict = workflow.NewTopic[Decision]("verdict")
	Comment = workflow.NewTopic[string]("comment")
)

// review collects comments until a verdict arrives. It sends a reminder once a day.
//
//flow:workflow
func review(ctx workflow.Context, doc string) (string, error) {
	verdict, comment, daily := Verdict.Case(), Comment.Case(), workflow.After(24*time.Hour)
	var comments []string
	for {
		won, err := workflow.Select(ctx, verdict, comment, daily)
		if err != nil {
			return "", err
		}
		switch won {
		case verdict:
			d := verdict.Value()
			return fmt.Sprintf("%s: %v by %s (%s)", doc, d.OK, d.By, strings.Join(comments, ", ")), nil
		case comment:
			comments = append(comments, comment.Value())
		case daily:
			if err := Remind(ctx, doc); err != nil {
				return "", err
			}
		}
	}
}

// sign waits for a verdict, but only for a limited time.
//
//flow:workflow
func sign(ctx workflow.Context, doc string) (Decision, error) {
	d, err := Verdict.Receive(ctx, workflow.Timeout(72*time.Hour))
	if errors.Is(err, workflow.ErrTimeout) {
		return Decision{By: "nobody", OK: false}, nil
	}
	if err != nil {
		return Decision{}, fmt.Errorf("sign %s: %w", doc, err)
	}
	return d, nil
}
