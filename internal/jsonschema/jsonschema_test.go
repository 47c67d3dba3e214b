package jsonschema_test

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/jsonschema"
)

type (
	base struct {
		ID     string `json:"id"`
		Hidden string `json:"-"`
		Note   string
	}
	tree[T any] struct {
		Value T          `json:"value"`
		Below []*tree[T] `json:"below,omitempty"`
	}
	custom struct{ A int }
	level  int
	order  struct {
		base
		Note    int            `json:"note/~"`
		Cents   int32          `json:"cents"`
		Flags   uint8          `json:"flags,omitempty"`
		Price   float64        `json:"price"`
		Quoted  int            `json:"quoted,string"`
		At      time.Time      `json:"at"`
		Until   *time.Time     `json:"until"`
		Data    []byte         `json:"data"`
		Pair    [2]bool        `json:"pair"`
		Labels  map[string]int `json:"labels"`
		Tree    tree[string]   `json:"tree"`
		Other   *tree[int]     `json:"other"`
		Any     any            `json:"any"`
		Raw     json.RawMessage
		Custom  custom
		Level   level
		Big     *big.Int
		private int //nolint:unused // no part of the schema
	}
)

func (c *custom) UnmarshalJSON([]byte) error { return nil }
func (l *level) UnmarshalText([]byte) error  { return nil }

func TestOf_DescribesWhatEncodingJSONReads(t *testing.T) {
	var got, want any
	if err := json.Unmarshal(jsonschema.Of(reflect.TypeFor[order](), ""), &got); err != nil {
		t.Fatal(err)
	}
	const text = `{
		"type": "object", "additionalProperties": false,
		"required": ["Custom", "Level", "Note", "at", "cents", "id", "note/~", "pair", "price", "quoted", "tree"],
		"properties": {
			"id": {"type": "string"}, "Note": {"type": "string"},
			"note/~": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807},
			"cents": {"type": "integer", "minimum": -2147483648, "maximum": 2147483647}, "flags": {"type": "integer", "minimum": 0, "maximum": 255},
			"price": {"type": "number"}, "quoted": {}, "at": {"type": "string", "format": "date-time"}, "until": {"type": ["string", "null"], "format": "date-time"},
			"data": {"type": ["string", "null"], "contentEncoding": "base64"}, "pair": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2},
			"labels": {"type": ["object", "null"], "additionalProperties": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807}},
			"tree": {"$ref": "#/$defs/tree2"}, "other": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
			"any": {}, "Raw": {}, "Custom": {}, "Level": {"type": "string"}, "Big": {"type": ["number", "null"]}
		},
		"$defs": {
			"tree2": {"type": "object", "additionalProperties": false, "properties": {"value": {"type": "string"}, "below": {"type": ["array", "null"], "items": {"anyOf": [{"$ref": "#/$defs/tree2"}, {"type": "null"}]}}}},
			"tree": {"type": "object", "additionalProperties": false, "properties": {"value": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807}, "below": {"type": ["array", "null"], "items": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}}}
		}
	}`
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the schema differs (-want +got):\n%s", diff)
	}
	first := string(jsonschema.Of(reflect.TypeFor[order](), ""))
	for range 20 {
		if string(jsonschema.Of(reflect.TypeFor[order](), "")) != first {
			t.Fatal("a type has two schemas")
		}
	}
	if got := string(jsonschema.Of(reflect.TypeFor[string](), "what")); got != `{"additionalProperties":false,"properties":{"what":{"type":"string"}},"required":["what"],"type":"object"}` {
		t.Errorf("a parameter: got %s", got)
	}
}

func TestOf_FollowsTheRulesOfEncodingJSONForFieldsOfOneName(t *testing.T) {
	type deeper struct{ A, B, C, D int }
	type deep struct {
		deeper
		B string `json:"B"`
		C string
	}
	type other struct {
		B string
		C string
	}
	type all struct {
		deep
		other
		A bool
		D bool `json:"D,omitzero,string"`
	}
	const want = `{"additionalProperties":false,"properties":{"A":{"type":"boolean"},"B":{"type":"string"},"D":{}},"required":["A","B"],"type":"object"}`
	if got := string(jsonschema.Of(reflect.TypeFor[all](), "")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b, err := json.Marshal(all{D: true})
	if err != nil {
		t.Fatal(err)
	}
	if faults := jsonschema.Check([]byte(want), b); len(faults) > 0 { // encoding/json omits ambiguous fields.
		t.Errorf("%s: %+v", b, faults)
	}
}

// The test proves that the encoding of a value conforms to the schema of its type.
func TestCheck_TakesWhatIsWritten(t *testing.T) {
	when := time.Now()
	o := order{
		base: base{ID: "x"}, Cents: -7, Flags: 255, Quoted: 3, At: when, Until: &when, Data: []byte("a"), Labels: map[string]int{"a/b": 1},
		Tree: tree[string]{Below: []*tree[string]{nil, {Value: "x"}}}, Other: &tree[int]{}, Any: []any{1, "x"}, Raw: json.RawMessage(`{"a":1}`), Big: big.NewInt(1 << 60),
	}
	schema := jsonschema.Of(reflect.TypeFor[order](), "")
	for _, v := range []order{o, {Level: 0}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b = []byte(strings.Replace(string(b), `"Level":0`, `"Level":"low"`, 1)) // The decoder accepts this value, but the encoder never writes it.
		if faults := jsonschema.Check(schema, b); len(faults) > 0 {
			t.Errorf("%s: %+v", b, faults)
		}
	}
}

func TestCheck_NamesThePlaceOfEachFault(t *testing.T) {
	schema := jsonschema.Of(reflect.TypeFor[order](), "")
	good := `"Custom":1,"Level":"a","Note":"","at":"2026-01-02T15:04:05Z","cents":1,"id":"","note/~":1,"pair":[true,false],"price":1,"quoted":"1","tree":{}`
	for _, tt := range []struct{ value, want string }{
		{`{` + good + `}`, ""},
		{`{"CENTS":2,` + strings.Replace(good, `"cents":1,`, "", 1) + `}`, ""},
		{`[]`, " is array, want object"},
		{`null`, " is null, want object"},
		{`{`, " is not JSON: unexpected EOF"},
		{`{` + good + `,"x":1}`, "/x is not known"},
		{strings.Replace(`{`+good+`}`, `"id":"",`, "", 1), "/id is missing"},
		{`{` + good + `,"cents":"1"}`, "/cents is string, want integer"},
		{`{` + good + `,"cents":1.0}`, "/cents is number, want integer"},
		{`{` + good + `,"cents":2147483648}`, "/cents is 2147483648, want at most 2147483647"},
		{`{` + good + `,"flags":-1}`, "/flags is -1, want at least 0"},
		{`{` + good + `,"note/~":9223372036854775808}`, "/note~1~0 is 9223372036854775808, want at most 9223372036854775807"},
		{`{` + good + `,"at":"yesterday"}`, `/at is "yesterday", want a time`},
		{`{` + good + `,"until":3}`, "/until is number, want string or null"},
		{`{` + good + `,"data":"%"}`, `/data is "%", want bytes in base64`},
		{`{` + good + `,"pair":[true]}`, "/pair has 1 elements, want at least 2"},
		{`{` + good + `,"pair":[true,1,false]}`, "/pair has 3 elements, want at most 2"},
		{`{` + good + `,"pair":[true,1]}`, "/pair/1 is number, want boolean"},
		{`{` + good + `,"labels":{"a/b":"x"}}`, "/labels/a~1b is string, want integer"},
		{`{` + good + `,"tree":{"below":[{"below":[null,{"value":2}]}]}}`, "/tree/below/0/below/1/value is number, want string"},
		{`{` + good + `,"other":{"value":"x"}}`, "/other/value is string, want integer"},
	} {
		got := ""
		for _, f := range jsonschema.Check(schema, []byte(tt.value)) {
			got += f.Pointer + " " + f.Problem
		}
		if tt.want == "" != (got == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.value, got, tt.want)
		}
	}
	if faults := jsonschema.Check(schema, []byte(`{"a":1,"b":2}`)); len(faults) != 13 {
		t.Errorf("got %d faults: %+v", len(faults), faults)
	}
	for _, other := range []string{"", "{", "[]", `{"type":"odd"}`, `{"$ref":"#/$defs/none"}`, `{"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`} {
		if faults := jsonschema.Check([]byte(other), []byte(`{"a":1}`)); faults != nil {
			t.Errorf("schema %q: got %+v", other, faults)
		}
	}
}
