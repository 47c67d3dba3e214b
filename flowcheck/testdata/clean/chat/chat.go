// Package chat answers messages with a language model.
package chat

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Message is one line of a conversation.
type Message struct {
	Role, Text string
}

// What a conversation hears and says.
var (
	Questions = workflow.NewTopic[string]("questions")
	Words     = workflow.NewStream[string]("words")
)

//flow:step timeout=2m
func complete(ctx context.Context, history []Message) (string, error) {
	for word := range strings.FieldsSeq("a long answer") {
		if err := step.Write(ctx, Words, word); err != nil {
			return "", err
		}
	}
	return "a long answer", nil
}

// summary keeps what fits.
func summary(history []Message) []Message {
	size := 0
	for i, m := range slices.Backward(history) {
		if size += len(m.Text); size > 10_000 {
			return history[i+1:]
		}
	}
	return history
}

// chat answers until an hour passes without a question.
//
//flow:workflow
func chat(ctx workflow.Context, system string) ([]Message, error) {
	history := []Message{{"system", system}}
	for {
		question, err := Questions.Receive(ctx, workflow.Timeout(time.Hour))
		if errors.Is(err, workflow.ErrReceiveTimeout) {
			Words.Close(ctx)
			return history, nil
		}
		if err != nil {
			return history, err
		}
		history = summary(append(history, Message{"user", question}))
		answer, err := Complete(ctx, history)
		if err != nil {
			Words.Write(ctx, "Sorry: "+err.Error())
			continue
		}
		history = append(history, Message{"assistant", answer})
	}
}
