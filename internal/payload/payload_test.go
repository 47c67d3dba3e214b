package payload_test

import (
	"encoding/json"
	"go/types"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/payload"
	"github.com/flowgen/flowgen/internal/payload/testdata/oracle"
)

// The test proves that Check agrees with encoding/json. It accepts a type if and only if a value
// with nonzero parts is unchanged after it was stored as an argument.
func TestCheck_AgreesWithEncodingJSON(t *testing.T) {
	set, err := load.Load(t.Context(), filepath.Join("testdata", "oracle"), []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	pkg := set.Packages[0].Types
	for name, value := range oracle.Values {
		t.Run(name, func(t *testing.T) {
			obj := pkg.Scope().Lookup(name)
			if obj == nil {
				t.Fatalf("there is no type %s", name)
			}
			faults := payload.Check("v", instantiated(t, obj.Type(), pkg), pkg)
			problem := roundTrip(value)
			if (problem == "") != (len(faults) == 0) {
				t.Errorf("encoding/json: %q; Check: %v", problem, faults)
			}
			for _, f := range faults {
				if f.What == "" || f.Fix == "" || f.Type == "" || f.Path[0] != 'v' {
					t.Errorf("the fault %+v says too little", f)
				}
			}
		})
	}
}

// instantiated returns t. If t is generic, it returns t instantiated with the type Inner.
func instantiated(t *testing.T, typ types.Type, pkg *types.Package) types.Type {
	t.Helper()
	if named, ok := typ.(*types.Named); !ok || named.TypeParams().Len() == 0 {
		return typ
	}
	instance, err := types.Instantiate(nil, typ, []types.Type{pkg.Scope().Lookup("Inner").Type()}, true)
	if err != nil {
		t.Fatal(err)
	}
	return instance
}

// roundTrip encodes v in a struct field passed by value, as generated code does. It returns the
// difference after decoding, or "" if there is none.
func roundTrip(v any) string {
	argsType := reflect.StructOf([]reflect.StructField{{Name: "V", Type: reflect.TypeOf(v), Tag: `json:"v"`}})
	args := reflect.New(argsType)
	args.Elem().Field(0).Set(reflect.ValueOf(v))
	data, err := json.Marshal(args.Elem().Interface())
	if err != nil {
		return err.Error()
	}
	back := reflect.New(argsType)
	if err := json.Unmarshal(data, back.Interface()); err != nil {
		return err.Error()
	}
	if !reflect.DeepEqual(args.Elem().Interface(), back.Elem().Interface()) {
		return "lost something in " + string(data)
	}
	return ""
}
