package effects

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The answers of a run are spread over a fixed number of streams by the ids of the asks, and each
// stream keeps a fixed number of them. So the retained data of a run is bounded without a list of
// answered asks, and a waiting client reads few answers to other asks. The next 1,000 answers put
// about 16 on a stream; the probability that they put 64 on it is 10^-17.
const (
	answerStreams = 64
	answersKept   = 64
)

// Answer is the outcome of an ask.
type Answer struct {
	ID      event.ItemID    `json:"id"`
	Payload json.RawMessage `json:"answer,omitempty"`
	Failure *event.Failure  `json:"failure,omitempty"`
	// Refused reports that the ask was not accepted.
	Refused bool `json:"refused,omitempty"`
}

// AnswerStream returns the stream on which the answer to an ask is published, among others.
func AnswerStream(id event.ItemID) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return "a:" + strconv.Itoa(int(h.Sum32()%answerStreams))
}

// Refusal returns the publication of a refused ask.
func Refusal(id event.ItemID, why *event.Failure) store.Publication {
	return answer(Answer{ID: id, Failure: why, Refused: true})
}

func answer(a Answer) store.Publication {
	body, err := json.Marshal(a)
	if err != nil { // the parts are JSON; only the data of an invalid error can fail
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
