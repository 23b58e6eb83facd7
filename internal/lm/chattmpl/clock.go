package chattmpl

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// clock is strftime_now: the given time in the format of C's strftime, as far as templates use it. A letter that is not known stays
// as it is, as in C's library.
func clock(now time.Time) jinja.Value {
	return jinja.NewCallable("strftime_now", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 1 || !args[0].IsString() {
			return jinja.Undefined(), errors.New("strftime_now: want a format")
		}
		return jinja.NewString(strftime(now, args[0].AsString())), nil
	})
}

func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		if format[i] == '-' && i+1 < len(format) { // without leading zeros
			i++
			s := strings.TrimLeft(field(t, format[i]), "0")
			if s == "" {
				s = "0"
			}
			b.WriteString(s)
			continue
		}
		b.WriteString(field(t, format[i]))
	}
	return b.String()
}

func field(t time.Time, c byte) string {
	layouts := map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'B': "January", 'b': "Jan", 'h': "Jan",
		'A': "Monday", 'a': "Mon", 'F': "2006-01-02", 'T': "15:04:05", 'Z': "MST", 'z': "-0700", 'e': "_2",
	}
	switch c {
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay())
	case '%':
		return "%"
	}
	if l, ok := layouts[c]; ok {
		return t.Format(l)
	}
	return "%" + string(c)
}
