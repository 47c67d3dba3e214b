package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type decodedInner struct {
	A, B string
	Next *decodedInner `json:"next"`
}

type decodedOuter struct {
	Text  string              `json:"text"`
	N     int8                `json:"n"`
	Bytes []byte              `json:"bytes"`
	List  []decodedInner      `json:"list"`
	Map   map[string][]int    `json:"map"`
	Ints  map[int]float64     `json:"ints"`
	Quote int                 `json:"quote,string"`
	Inner struct{ X, Y bool } `json:"inner"`
	decodedInner
}

// keeper keeps the bytes that its method receives, against the contract of package json.
type keeper struct{ kept []byte }

func (k *keeper) UnmarshalJSON(b []byte) error { k.kept = b; return nil }

// spoiler changes the bytes that its method receives.
type spoiler struct{}

func (*spoiler) UnmarshalJSON(b []byte) error { clear(b); return nil }

// TestDecoder_DecodesLikePackageJSON decodes values of different types, valid and not, in an order in
// which reused decoders have just decoded another value, or have failed. Values and errors are those
// of package json.
func TestDecoder_DecodesLikePackageJSON(t *testing.T) {
	types := []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[*float64](), reflect.TypeFor[[]string](), reflect.TypeFor[bool](),
		reflect.TypeFor[decodedInner](), reflect.TypeFor[decodedOuter](), reflect.TypeFor[map[string]decodedInner](), reflect.TypeFor[any](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[json.Number](), reflect.TypeFor[[2]int](), reflect.TypeFor[struct{}](),
	}
	values := []string{
		``, ` `, `null`, `true`, `12`, `12 `, `-1.5e3`, `""`, `"text"`, `"a\u00e9\n\"<"`, ` "text"`, `"text" `, `"text"x`, `"open`, `[]`, `["a","b"]`, `[1,2]`, `[1,2,3]`, `[1`,
		`{}`, `{"A":"a","b":"b","next":{"a":"x","next":null}}`, `{"A":1,"B":"b"}`, `{"a":"b"}}`, `{"a":"b"} {"a":"c"}`, `{"unknown":1,"A":"a"}`, `{"A":"a",}`,
		`{"text":"t","n":5,"bytes":"AAEC","list":[{"A":"1"},{"B":"2"}],"map":{"k":[1,2]},"ints":{"3":1.5},"quote":"7","inner":{"X":true}}`,
		`{"n":500,"text":"late"}`, `{"bytes":"?"}`, `{"quote":7}`, `{"ints":{"x":1}}`, `"2026-01-02T03:04:05Z"`,
		`"` + strings.Repeat("long ", mostPooled/4) + `"`, strings.Repeat("[", 20_000),
	}
	for range 2 {
		for _, typ := range types {
			for _, value := range values {
				data := []byte(value)
				got, want := reflect.New(typ), reflect.New(typ)
				err, wantErr := unmarshal(data, got.Interface()), json.Unmarshal(data, want.Interface())
				if fmt.Sprint(err) != fmt.Sprint(wantErr) || reflect.TypeOf(err) != reflect.TypeOf(wantErr) {
					t.Errorf("%.60s into %v: error %v, want %v", value, typ, err, wantErr)
				}
				if diff := cmp.Diff(want.Interface(), got.Interface(), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
					t.Errorf("%.60s into %v (-want +got):\n%s", value, typ, diff)
				}
				if string(data) != value {
					t.Errorf("%.60s into %v: the data has changed", value, typ)
				}
			}
		}
	}
}

// TestDecoder_ValuesShareNoMemory proves that a later value does not change an earlier one, and that
// methods of user code receive a copy of the stored text.
func TestDecoder_ValuesShareNoMemory(t *testing.T) {
	type value struct {
		Text  string
		Raw   json.RawMessage
		Bytes []byte
		Map   map[string]string
		Any   any
	}
	text := `{"Text":"first","Raw":{"a":"first"},"Bytes":"AAEC","Map":{"first":"first"},"Any":["first"]}`
	var kept keeper
	var first, want value
	var plainFirst decodedOuter
	for _, err := range []error{
		unmarshal([]byte(text), &first), json.Unmarshal([]byte(text), &want), unmarshal([]byte(`"kept"`), &kept),
		unmarshal([]byte(`{"text":"first","bytes":"AAEC","list":[{"A":"first"}],"map":{"first":[1]}}`), &plainFirst),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		var v value
		var o decodedOuter
		if err := errors.Join(unmarshal([]byte(strings.ReplaceAll(text, "first", "other")), &v),
			unmarshal([]byte(`{"text":"other","bytes":"CCCC","list":[{"A":"other"}],"map":{"other":[9]}}`), &o)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first value has changed (-want +got):\n%s", diff)
	}
	if got := fmt.Sprint(plainFirst.Text, plainFirst.Bytes, plainFirst.List[0].A, plainFirst.Map); got != "first[0 1 2]firstmap[first:[1]]" {
		t.Errorf("the first plain value is now %s", got)
	}
	if string(kept.kept) != `"kept"` {
		t.Errorf("the bytes that a method has kept are now %q", kept.kept)
	}
	stored := []byte(`"stored"`)
	if err := unmarshal(stored, &spoiler{}); err != nil || string(stored) != `"stored"` {
		t.Errorf("a method has changed the stored text to %q, %v", stored, err)
	}
}

// TestAllocs_OfDecoding bounds the allocations of decoding: only the strings of the value.
func TestAllocs_OfDecoding(t *testing.T) {
	if info, _ := debug.ReadBuildInfo(); slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("under the race detector, pools drop a random part of the values put into them")
	}
	args, text := []byte(`{"A":"argument","B":"another"}`), []byte(`"result"`)
	var in decodedInner
	var out string
	for what, tt := range map[string]struct {
		decode func() error
		want   float64
	}{
		"arguments of a step": {func() error { return Decode("args", args, &in) }, 2},
		"result of a step":    {func() error { return Decode("result", text, &out) }, 1},
		"input of a workflow": {func() error { _, err := decodeAll("input", args, &in); return err }, 2},
	} {
		got := testing.AllocsPerRun(1000, func() {
			if err := tt.decode(); err != nil {
				t.Fatal(err)
			}
		})
		if got > tt.want {
			t.Errorf("%s: %v allocations, want %v", what, got, tt.want)
		}
	}
}
