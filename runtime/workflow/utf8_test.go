package workflow_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const bad = "caf\xe9" // text in ISO 8859-1

type (
	inner struct {
		Note string `json:"note"`
	}
	outer struct {
		Name  string
		Items []inner `json:"items"`
		Any   any
		Ptr   *inner
		inner
	}
	marshals struct{ text string }
	texts    struct{ text string }
)

func (m marshals) MarshalJSON() ([]byte, error) { return []byte(m.text), nil }
func (m texts) MarshalText() ([]byte, error)    { return []byte(m.text), nil }

func encode(v any) ([]byte, error) {
	return flow.EncodePayload("input of step ", "orders.charge", v)
}

func TestEncodePayload_RefusesStringsThatAreNotUTF8AndSaysWhere(t *testing.T) {
	for where, v := range map[string]any{
		"it is":         bad,
		"Name is":       outer{Name: bad},
		"items[1].note": outer{Items: []inner{{"ok"}, {bad}}},
		"Any.a[0] is": outer{Any: struct {
			A []any `json:"a"`
		}{[]any{bad}}},
		"Ptr.note":                     &outer{Ptr: &inner{bad}},
		"note is":                      outer{inner: inner{bad}},
		`["k"].note`:                   map[string]inner{"k": {bad}},
		"a key is":                     map[string]int{bad: 1, "caf\xe8": 2}, // both keys would become the same key
		"a key of Any":                 outer{Any: map[string]int{bad: 1}},
		"Any is":                       outer{Any: texts{bad}},
		`it is not UTF-8 ("\"\xff\"")`: json.RawMessage(`"` + "\xff" + `"`),
		"byte 4 is":                    marshals{`"caf` + "\xff" + `"`},
		"[2] is not":                   [3]string{2: bad},
		"a key is not":                 map[texts]int{{bad}: 1},
		`"caf\xe9"`:                    []string{bad},
		"[]byte":                       []string{bad},
	} {
		data, err := encode(v)
		var p *workflow.PayloadError
		if !errors.As(err, &p) || p.What != "input of step orders.charge" || data != nil || !strings.Contains(err.Error(), where) {
			t.Errorf("%#v: got %s, %v, want a *PayloadError with %q", v, data, err, where)
		}
	}
}

func TestEncodePayload_KeepsEveryTextThatIsUTF8(t *testing.T) {
	for _, v := range []any{
		"\uFFFD", `\ufffd`, `a \ufffd b`, "\x00\x1f\u2028 <&>", []byte(bad), map[string]string{"\uFFFD": `\ufffd`},
		json.RawMessage(`"\ufffd"`), marshals{`"\ufffd"`}, outer{Name: "é"}, nil, (*outer)(nil),
	} {
		if _, err := encode(v); err != nil {
			t.Errorf("%#v: %v", v, err)
		}
	}
}

func TestDecodePayload_RefusesTextThatNoStringCanHold(t *testing.T) {
	for text, where := range map[string]string{
		`"a` + "\xff" + `"`:            "byte 2 is not UTF-8",
		`"` + "\uFFFD\xff" + `"`:       "byte 4 is not UTF-8",
		`"\ud800"`:                     "byte 1 begins half of a surrogate pair",
		`{"a":"\\\udc00"}`:             "byte 8 begins half",
		`"\ud83d\ude00 \uD83D\u0041"`:  "byte 14 begins half",
		`"\ud83d\ude00\n\\ud800 \u00"`: "orders.charge", // package json refuses this text
	} {
		var v any
		err := flow.DecodePayload("input of step ", "orders.charge", []byte(text), &v)
		var p *workflow.PayloadError
		if !errors.As(err, &p) || !strings.Contains(err.Error(), where) {
			t.Errorf("%q: got %v and %v, want a *PayloadError with %q", text, v, err, where)
		}
	}
	for text, want := range map[string]string{
		`"\ud83d\ude00"`: "😀", `"\\ud800"`: `\ud800`, `"\\\\\ufffd"`: `\\` + "\uFFFD", `"\u00e9\""`: `é"`, `"é"`: "é",
	} {
		var got string
		if err := flow.DecodePayload("", "", []byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %q, %v", text, got, err)
		}
	}
}
