package chattmpl

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// clock is strftime_now: the given time in the format of C's strftime (in the C locale), as Python's datetime gives it out.
func clock(now time.Time) jinja.Value {
	return jinja.NewCallable("strftime_now", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 1 || !args[0].IsString() {
			return jinja.Undefined(), errors.New("strftime_now: want a format")
		}
		return jinja.NewString(strftime(now, args[0].AsString())), nil
	})
}

// strftime writes a time. A minus before a letter, as in %-d, leaves leading zeros out; a letter that is not known stays as it is.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		if format[i] != '-' || i+1 == len(format) {
			b.WriteString(field(t, format[i]))
			continue
		}
		i++
		if s := field(t, format[i]); s != "" {
			b.WriteString(strings.TrimLeft(s[:len(s)-1], "0 ") + s[len(s)-1:])
		}
	}
	return b.String()
}

// field is what a letter stands for. Python's time knows no zone here, so that of the zone is empty.
func field(t time.Time, c byte) string {
	layouts := map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'B': "January",
		'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'F': "2006-01-02", 'D': "01/02/06", 'x': "01/02/06", 'T': "15:04:05",
		'X': "15:04:05", 'R': "15:04", 'c': "Mon Jan _2 15:04:05 2006", 'r': "03:04:05 PM",
	}
	if l, ok := layouts[c]; ok {
		return t.Format(l)
	}
	isoYear, isoWeek := t.ISOWeek()
	day := int(t.Weekday())
	switch c {
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay())
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 'w':
		return fmt.Sprint(day)
	case 'u':
		return fmt.Sprint((day+6)%7 + 1)
	case 'U': // weeks begin on Sunday
		return fmt.Sprintf("%02d", (t.YearDay()+6-day)/7)
	case 'W': // on Monday
		return fmt.Sprintf("%02d", (t.YearDay()+6-(day+6)%7)/7)
	case 'V':
		return fmt.Sprintf("%02d", isoWeek)
	case 'G':
		return fmt.Sprint(isoYear)
	case 'g':
		return fmt.Sprintf("%02d", isoYear%100)
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100)
	case 'k':
		return fmt.Sprintf("%2d", t.Hour())
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1)
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case '%':
		return "%"
	case 'Z', 'z':
		return ""
	}
	return "%" + string([]byte{c})
}
