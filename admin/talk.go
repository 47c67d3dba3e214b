package admin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Message is a payload for a topic or an ask of a run.
type Message struct {
	Payload Payload `json:"payload,omitempty"` // payload in JSON, in the form of the type of the topic or ask
	Reason  string  `json:"reason,omitempty"`  // recorded in the journal; refused if the service has no journal
	// Key is an idempotency key. Of the messages with the same key to the same topic or ask of a
	// run, only the first one arrives. This holds for at least 24 hours. A repeated ask returns the
	// same answer.
	Key string `json:"-"`
}

// Answer is the answer of a run to an ask.
type Answer struct {
	Run     string  `json:"run"`
	Payload Payload `json:"payload,omitempty"`
}

// Sent reports that a message is durable.
type Sent struct {
	Run string `json:"run"`
}

// Value is the latest value that a run has published under a name.
type Value struct {
	Run   string  `json:"run"`
	Name  string  `json:"name"`
	Set   bool    `json:"set"` // false if the run has not published the value yet
	Value Payload `json:"value,omitempty"`
}

// Send sends a message to a topic of a run. When it returns nil, the message is durable.
func (s *Service) Send(ctx context.Context, ref, topic string, m Message) (Sent, error) {
	e := s.entry(JournalEntry{Action: "send", Target: ref, Detail: topic, Reason: m.Reason, Key: m.Key})
	return recorded(ctx, s, &e, func(ctx context.Context) (Sent, error) { return s.send(ctx, ref, topic, m.left(&e)) },
		func(got Sent, e *JournalEntry) { e.Run = got.Run })
}

// send is like [Service.Send], but does not write the journal.
func (s *Service) send(ctx context.Context, ref, topic string, m Message) (Sent, error) {
	if err := s.who.Need(RoleOperator, "to send messages"); err != nil {
		return Sent{}, err
	}
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Sent{}, err
	}
	if err := m.check("topic", topic); err != nil {
		return Sent{}, err
	}
	h, info, err := s.find(ctx, ref)
	if err != nil {
		return Sent{}, err
	}
	err = workflow.NewTopic[json.RawMessage](topic).Send(ctx, h, m.Payload, m.options()...)
	return Sent{Run: string(info.ID)}, err
}

// Ask sends a request to a run, and waits for the answer until ctx is done.
func (s *Service) Ask(ctx context.Context, ref, name string, m Message) (Answer, error) {
	e := s.entry(JournalEntry{Action: "ask", Target: ref, Detail: name, Reason: m.Reason, Key: m.Key})
	return recorded(ctx, s, &e, func(ctx context.Context) (Answer, error) { return s.ask(ctx, ref, name, m.left(&e)) },
		func(got Answer, e *JournalEntry) { e.Run = got.Run })
}

// ask is like [Service.Ask], but does not write the journal.
func (s *Service) ask(ctx context.Context, ref, name string, m Message) (Answer, error) {
	if err := s.who.Need(RoleOperator, "to ask runs"); err != nil {
		return Answer{}, err
	}
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Answer{}, err
	}
	if err := checkName("ask", name); err != nil {
		return Answer{}, err
	}
	if err := m.check("ask", name); err != nil {
		return Answer{}, err
	}
	h, info, err := s.find(ctx, ref)
	if err != nil {
		return Answer{}, err
	}
	got, err := workflow.NewAsk[json.RawMessage, json.RawMessage](name).Ask(ctx, h, m.Payload, m.options()...)
	return Answer{Run: string(info.ID), Payload: got}, err
}

// Value returns the latest value that a run has published under a name. It does not wait.
func (s *Service) Value(ctx context.Context, ref, name string) (Value, error) {
	if err := s.who.Need(RolePayloads, "to read values"); err != nil {
		return Value{}, err
	}
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Value{}, err
	}
	if err := checkName("value", name); err != nil {
		return Value{}, err
	}
	h, info, err := s.find(ctx, ref)
	if err != nil {
		return Value{}, err
	}
	value, set, err := workflow.NewValue[json.RawMessage](name).Get(ctx, h)
	return Value{Run: string(info.ID), Name: name, Set: set, Value: value}, err
}

// check validates a message.
func (m *Message) check(what, name string) error {
	switch {
	case name == "":
		return &InputError{What: "the name of the " + what + " is empty", Fix: "name it as its declaration does"}
	case isSealed(m.Payload):
		return sealedInput("payload")
	case !json.Valid(m.Payload):
		return &InputError{What: "the payload is not JSON", Fix: `give JSON as the type of the ` + what + ` has it, such as true or {"approved":true}`}
	}
	return checkReason("a message to "+name, m.Reason, false)
}

func isSealed(p Payload) bool {
	_, sealed := event.SealedData(p)
	return sealed
}

// sealedInput is the error for a payload in the form in which sealed payloads are shown. A workflow
// would receive this form instead of the data.
func sealedInput(what string) error {
	return &InputError{What: "the " + what + " is sealed data of another run", Fix: "open them with their key, and give the data themselves"}
}

func (m *Message) options() []workflow.SendOption {
	if m.Key == "" {
		return nil
	}
	return []workflow.SendOption{workflow.IdempotencyKey(m.Key)}
}

// maxName is the maximum length of the names of asks and values in bytes. Declaring an ask or a
// value with a longer name panics.
const maxName = 200

func checkName(what, name string) error {
	if name == "" || len(name) > maxName {
		return &InputError{What: fmt.Sprintf("the name of the %s has %d bytes", what, len(name)), Fix: fmt.Sprintf("name it as its declaration does, with 1 to %d bytes", maxName)}
	}
	return nil
}
