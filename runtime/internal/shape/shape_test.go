package shape_test

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/shape"
)

type (
	base struct {
		ID   string
		Kind int `json:"kind"`
	}
	callback struct {
		base
		*Paid
		Amount  int64             `json:"amount"`
		Small   int8              `json:"small"`
		Share   float32           `json:"share"`
		OK      bool              `json:"ok,omitempty"`
		Quoted  int               `json:"quoted,string"`
		Lines   []line            `json:"lines"`
		Pair    [2]int            `json:"pair"`
		Labels  map[string]string `json:"labels"`
		ByCode  map[int]*line     `json:"byCode"`
		At      time.Time         `json:"at"`
		Big     *big.Int          `json:"big"`
		Any     any               `json:"any"`
		Raw     json.RawMessage   `json:"raw"`
		Number  json.Number       `json:"number"`
		Bytes   []byte            `json:"bytes"`
		Ignored chan int          `json:"-"`
		Self    *callback         `json:"self"`
		hidden  string
	}
	// Paid is embedded by pointer.
	Paid struct{ By string }
	line struct{ Text string }
	// loop is a type that embeds itself.
	loop struct {
		*loop //nolint:unused // the embedding is tested
		Name  string
	}
	// wide is a type with many fields of its own type.
	wide struct {
		A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P *wide
		Text                                           string
	}
)

var types = []reflect.Type{
	reflect.TypeFor[int](), reflect.TypeFor[uint8](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[bool](),
	reflect.TypeFor[*int](), reflect.TypeFor[[]int](), reflect.TypeFor[map[string]int](), reflect.TypeFor[struct{}](), reflect.TypeFor[any](),
	reflect.TypeFor[callback](), reflect.TypeFor[*callback](), reflect.TypeFor[[]callback](), reflect.TypeFor[map[string]callback](),
	reflect.TypeFor[loop](), reflect.TypeFor[wide](), reflect.TypeFor[time.Time](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[[]byte](),
}

var scalars = []string{"null", "true", `"text"`, `"7"`, `"2024-01-02T03:04:05Z"`, `"AQID"`, "7", "-1", "300", "1.5", "1e2", "1e400", "9223372036854775808", "[]", "{}",
	"[1]", `["a"]`, "[null]", "[1,2,3]", `{"a":1}`, `{"a":"b"}`, `{"1":{"Text":"x"}}`, `{"1":{"Text":1}}`, `[{"Text":1}]`, `[{"text":"x"}]`, `{"Text":1}`, `{"Name":1}`}

// TestCheck_RefusesNothingThatCanBeRead proves that Check accepts every value that encoding/json
// decodes, and rejects values of the wrong kind.
func TestCheck_RefusesNothingThatCanBeRead(t *testing.T) {
	values := append([]string{}, scalars...)
	callbackType := reflect.TypeFor[callback]()
	for _, name := range []string{"id", "ID", "KIND", "kind", "By", "amount", "Amount", "small", "share", "ok", "quoted", "lines", "pair", "labels", "byCode",
		"at", "big", "any", "raw", "number", "bytes", "hidden", "-", "Ignored", "other"} {
		for _, v := range scalars {
			values = append(values, `{"`+name+`":`+v+`}`, `{"self":{"`+name+`":`+v+`}}`, `[{"`+name+`":`+v+`}]`)
		}
	}
	refused := 0
	for _, typ := range types {
		described := shape.Of(typ)
		if len(described) > 1024 {
			t.Errorf("the shape of %v has %d bytes", typ, len(described))
		}
		for _, v := range values {
			err, readErr := shape.Check(described, []byte(v)), json.Unmarshal([]byte(v), reflect.New(typ).Interface())
			if err != nil {
				refused++
			}
			if err != nil && readErr == nil {
				t.Errorf("%s is no %v: %v, but it can be read", v, typ, err)
			}
			if err == nil && readErr != nil && plain(typ) {
				t.Errorf("%s fits %v, but it cannot be read: %v", v, typ, readErr)
			}
		}
	}
	if refused < len(values) {
		t.Errorf("of %d values for %d types only %d were refused", len(values), len(types), refused)
	}
	_ = callback{hidden: callbackType.Name()}.hidden
}

// plain reports whether a shape describes a type completely.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Uint8, reflect.Float64, reflect.String, reflect.Bool:
		return true
	}
	return t == reflect.TypeFor[[]int]() || t == reflect.TypeFor[map[string]int]()
}

func TestCheck_SaysWhatIsWrongAndWhere(t *testing.T) {
	described := shape.Of(reflect.TypeFor[callback]())
	for value, want := range map[string]string{
		`{"amount":"7"}`:               "there is a string at amount, want int64",
		`{"small":300}`:                "there is the number 300 at small, want int8",
		`{"labels":{"a":true}}`:        "there is a boolean at labels.a, want string",
		`{"lines":[{"Text":"a"},"b"]}`: "there is a string at lines[1], want an object",
		`[]`:                           "there is a list, want an object",
	} {
		if err := shape.Check(described, []byte(value)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", value, err, want)
		}
	}
}

func TestCheck_AcceptsEverythingForAShapeThatCannotBeRead(t *testing.T) {
	for _, described := range []string{"", "{", "7", `{"is":7}`, `{"is":"complex64"}`, strings.Repeat("x", 10)} {
		if err := shape.Check([]byte(described), []byte(`{"a":1}`)); err != nil {
			t.Errorf("%q: %v", described, err)
		}
	}
}
