package effects

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The answers of a run are spread over a fixed number of streams, by the ids of the
// questions, each of which keeps a fixed number of them: so what a run keeps is
// bounded without a list of what was answered, and who waits reads few answers that
// are not meant for him. The next 1,000 answers put about 16 on a stream; that they
// put 64 there happens once in 10^17 times.
const (
	answerStreams = 64
	answersKept   = 64
)

// Answer is the outcome of a question.
type Answer struct {
	ID      event.ItemID    `json:"id"`
	Payload json.RawMessage `json:"answer,omitempty"`
	Failure *event.Failure  `json:"failure,omitempty"`
	// Refused says that the question was not accepted.
	Refused bool `json:"refused,omitempty"`
}

// AnswerStream is where the answer to a question is published, among others.
func AnswerStream(id event.ItemID) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return "a:" + strconv.Itoa(int(h.Sum32()%answerStreams))
}

// Refusal returns the publication which says that a question was not accepted.
func Refusal(id event.ItemID, why *event.Failure) store.Publication {
	return answer(Answer{ID: id, Failure: why, Refused: true})
}

func answer(a Answer) store.Publication {
	body, err := json.Marshal(a)
	if err != nil { // the parts are JSON: what remains is data of an error that is none
		a.Failure = &event.Failure{Code: event.CodePayload, Message: fmt.Sprintf("the answer cannot be written: %v", err)}
		a.Payload = nil
		body, _ = json.Marshal(a)
	}
	return store.Publication{Stream: AnswerStream(a.ID), Body: body, Keep: answersKept}
}

// DecodeAnswer reads a chunk of an AnswerStream.
func DecodeAnswer(chunk []byte) (*Answer, error) {
	a := &Answer{}
	if err := json.Unmarshal(chunk, a); err != nil {
		return nil, fmt.Errorf("decode answer: %w: %w", err, event.ErrCorrupt)
	}
	return a, nil
}
