//! How values are written into a candidate's memory, and read again.
//!
//! Each kind of value has one form, numbers all their bytes; nothing says what follows, for only
//! the same version of the component reads it. By hand, since what `serde` derives is 15 KB more of
//! component: there, each value can be refused where it stands. Here a value that cannot be read is
//! some other one, and the whole memory is refused at the end.
//!
//! A type takes part by [`remember!`], with all its fields, or with all its cases and a number for each.
//! Whoever changes one changes the version of the memory too.

use core::time::Duration;

use crate::prelude::*;

/// What can be kept in a memory.
pub trait Remember {
    /// Appends the value.
    fn write(&self, memory: &mut Vec<u8>);

    /// Takes the value. Some other one where there is none, which is noted.
    fn read(memory: &mut Recall<'_>) -> Self;
}

/// A memory that is being read.
pub struct Recall<'m> {
    rest: &'m [u8],
    damaged: bool,
}

impl<'m> Recall<'m> {
    /// Reads a value that is the whole memory; none if it was damaged.
    pub fn all<T: Remember>(memory: &'m [u8]) -> Option<T> {
        let mut recall = Self { rest: memory, damaged: false };
        let value = T::read(&mut recall);
        (!recall.damaged && recall.rest.is_empty()).then_some(value)
    }

    /// Notes that what was read is no value of its type.
    pub fn refuse(&mut self) {
        self.damaged = true;
        self.rest = &[];
    }

    /// The next `N` bytes; zeros when there are not as many.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                *bytes
            }
            None => {
                self.refuse();
                [0; N]
            }
        }
    }

    fn text(&mut self) -> Option<String> {
        let length = u32::read(self) as usize;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        core::str::from_utf8(text).ok().map(Into::into)
    }
}

// What is not inlined here is called in very many places.

impl Remember for u8 {
    #[inline(never)]
    fn write(&self, memory: &mut Vec<u8>) {
        memory.push(*self);
    }

    fn read(memory: &mut Recall<'_>) -> Self {
        let [byte] = memory.bytes();
        byte
    }
}

impl Remember for bool {
    fn write(&self, memory: &mut Vec<u8>) {
        u8::from(*self).write(memory);
    }

    #[inline(never)]
    fn read(memory: &mut Recall<'_>) -> Self {
        let byte = u8::read(memory);
        if byte > 1 {
            memory.refuse();
        }
        byte == 1
    }
}

impl Remember for u32 {
    #[inline(never)]
    fn write(&self, memory: &mut Vec<u8>) {
        memory.extend_from_slice(&self.to_le_bytes());
    }

    #[inline(never)]
    fn read(memory: &mut Recall<'_>) -> Self {
        Self::from_le_bytes(memory.bytes())
    }
}

impl Remember for u64 {
    #[inline(never)]
    fn write(&self, memory: &mut Vec<u8>) {
        memory.extend_from_slice(&self.to_le_bytes());
    }

    #[inline(never)]
    fn read(memory: &mut Recall<'_>) -> Self {
        Self::from_le_bytes(memory.bytes())
    }
}

/// In nanoseconds, of which there is room for some centuries.
impl Remember for Duration {
    #[inline(never)]
    fn write(&self, memory: &mut Vec<u8>) {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).write(memory);
    }

    #[inline(never)]
    fn read(memory: &mut Recall<'_>) -> Self {
        Self::from_nanos(u64::read(memory))
    }
}

impl Remember for String {
    #[inline(never)]
    fn write(&self, memory: &mut Vec<u8>) {
        write_length(self.len(), memory);
        memory.extend_from_slice(self.as_bytes());
    }

    #[inline(never)]
    fn read(memory: &mut Recall<'_>) -> Self {
        memory.text().unwrap_or_else(|| {
            memory.refuse();
            Self::new()
        })
    }
}

impl<T: Remember> Remember for Option<T> {
    fn write(&self, memory: &mut Vec<u8>) {
        self.is_some().write(memory);
        if let Some(value) = self {
            value.write(memory);
        }
    }

    fn read(memory: &mut Recall<'_>) -> Self {
        bool::read(memory).then(|| T::read(memory))
    }
}

impl<T: Remember> Remember for Vec<T> {
    fn write(&self, memory: &mut Vec<u8>) {
        write_length(self.len(), memory);
        for value in self {
            value.write(memory);
        }
    }

    fn read(memory: &mut Recall<'_>) -> Self {
        let mut values = Self::new();
        for _ in 0..u32::read(memory) {
            // Every value has a byte at least: what says of more than there are ends here.
            if memory.rest.is_empty() {
                memory.refuse();
                break;
            }
            values.push(T::read(memory));
        }
        values
    }
}

impl<A: Remember, B: Remember> Remember for (A, B) {
    fn write(&self, memory: &mut Vec<u8>) {
        self.0.write(memory);
        self.1.write(memory);
    }

    fn read(memory: &mut Recall<'_>) -> Self {
        (A::read(memory), B::read(memory))
    }
}

/// No list and no text is as long as 4 GiB.
fn write_length(length: usize, memory: &mut Vec<u8>) {
    u32::try_from(length).unwrap_or(u32::MAX).write(memory);
}

/// Has a type remembered.
///
/// - `remember!(struct Pace { next, failures })`: all fields, of which each is remembered.
/// - `remember!(struct ETag(text))`: the only one.
/// - `remember!(enum Pass { 0 = Own, 1 = SecondKey, 2 = Token(secret) } else Own)`: all cases, each
///   with its byte, and the one that stands for a byte that is none of them; that damages the memory.
macro_rules! remember {
    (struct $name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::memory::Remember for $name {
            fn write(&self, memory: &mut $crate::prelude::Vec<u8>) {
                let Self { $($field),* } = self;
                $($crate::memory::Remember::write($field, memory);)*
            }

            fn read(memory: &mut $crate::memory::Recall<'_>) -> Self {
                $(let $field = $crate::memory::Remember::read(memory);)*
                Self { $($field),* }
            }
        }
    };
    (struct $name:ident($field:ident)) => {
        impl $crate::memory::Remember for $name {
            fn write(&self, memory: &mut $crate::prelude::Vec<u8>) {
                let Self($field) = self;
                $crate::memory::Remember::write($field, memory);
            }

            fn read(memory: &mut $crate::memory::Recall<'_>) -> Self {
                Self($crate::memory::Remember::read(memory))
            }
        }
    };
    (enum $name:ident {
        $($byte:literal = $case:ident $(($value:ident))? $({ $($field:ident),* })?),* $(,)?
    } else $other:ident) => {
        impl $crate::memory::Remember for $name {
            fn write(&self, memory: &mut $crate::prelude::Vec<u8>) {
                match self {
                    $(Self::$case $(($value))? $({ $($field),* })? => {
                        <u8 as $crate::memory::Remember>::write(&$byte, memory);
                        $($crate::memory::Remember::write($value, memory);)?
                        $($($crate::memory::Remember::write($field, memory);)*)?
                    })*
                }
            }

            fn read(memory: &mut $crate::memory::Recall<'_>) -> Self {
                match <u8 as $crate::memory::Remember>::read(memory) {
                    $($byte => {
                        $(let $value = $crate::memory::Remember::read(memory);)?
                        $($(let $field = $crate::memory::Remember::read(memory);)*)?
                        Self::$case $(($value))? $({ $($field),* })?
                    })*
                    _ => {
                        memory.refuse();
                        Self::$other
                    }
                }
            }
        }
    };
}

pub(crate) use remember;

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    enum Shape {
        Point,
        Circle(u32),
        Box { name: String, sides: Vec<Duration> },
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Drawing {
        shape: Shape,
        shown: bool,
        link: Option<Option<u64>>,
        notes: Vec<(String, u8)>,
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Name(String);

    remember!(enum Shape { 3 = Point, 4 = Circle(radius), 7 = Box { name, sides } } else Point);
    remember!(struct Drawing { shape, shown, link, notes });
    remember!(struct Name(text));

    fn written(value: &impl Remember) -> Vec<u8> {
        let mut memory = Vec::new();
        value.write(&mut memory);
        memory
    }

    fn drawing() -> Drawing {
        Drawing {
            shape: Shape::Box { name: "é".into(), sides: vec![Duration::new(3, 1)] },
            shown: true,
            link: Some(None),
            notes: vec![("a".into(), 255), (String::new(), 0)],
        }
    }

    fn comes_back<T: Remember + PartialEq + Debug>(value: T) {
        let memory = written(&value);
        assert_eq!(Recall::all::<T>(&memory).as_ref(), Some(&value));
        for length in 0..memory.len() {
            assert_eq!(Recall::all::<T>(&memory[..length]), None, "{length} of {memory:?}");
        }
        let longer = [memory.as_slice(), &[0]].concat();
        assert_eq!(Recall::all::<T>(&longer), None, "{memory:?} and a byte");
    }

    #[test]
    fn what_is_written_is_read_and_no_part_of_it() {
        comes_back(drawing());
        comes_back(Drawing { shape: Shape::Point, link: None, ..drawing() });
        comes_back(Drawing { shape: Shape::Circle(7), link: Some(Some(9)), ..drawing() });
        comes_back(Name("tenure".into()));
    }

    #[test]
    fn what_is_no_value_damages_the_memory() {
        assert_eq!(Recall::all::<Shape>(&[3]), Some(Shape::Point));
        assert_eq!(Recall::all::<Shape>(&[5]), None);
        assert_eq!(Recall::all::<bool>(&[2]), None);
        assert_eq!(Recall::all::<Name>(&[1, 0, 0, 0, 0xff]), None);
        assert_eq!(Recall::all::<Vec<bool>>(&[0xff, 0xff, 0xff, 0xff, 1, 1]), None);
    }

    #[test]
    fn a_duration_that_is_too_long_is_the_longest() {
        let read = Recall::all::<Duration>(&written(&Duration::MAX));
        assert_eq!(read, Some(Duration::from_nanos(u64::MAX)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Some(drawing) = Recall::all::<Drawing>(&bytes) {
                prop_assert_eq!(written(&drawing), bytes);
            }
        }
    }
}
