//! A value that somebody changes by requests whose answers may be lost.

/// What is known of a value: what was acknowledged, and what was asked for without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known<T> {
    certain: T,
    asked: Option<T>,
}

impl<T: Clone + PartialEq> Known<T> {
    /// A value that is certain.
    pub fn certainly(value: T) -> Self {
        Self { certain: value, asked: None }
    }

    /// What it is as far as was acknowledged.
    pub fn certain(&self) -> &T {
        &self.certain
    }

    /// What it may be as well, when an answer is missing.
    pub fn asked(&self) -> Option<&T> {
        self.asked.as_ref()
    }

    /// A request for another value is sent.
    pub fn ask(&mut self, value: T) {
        self.asked = Some(value);
    }

    /// The request was acknowledged.
    pub fn acknowledge(&mut self) {
        if let Some(value) = self.asked.take() {
            self.certain = value;
        }
    }

    /// The request was refused: nothing has changed.
    pub fn refuse(&mut self) {
        self.asked = None;
    }

    /// Whether what was found is one of the values that it can have. From then on it is certain.
    pub fn settle(&mut self, found: &T) -> bool {
        if self.asked.as_ref() == Some(found) {
            self.acknowledge();
            return true;
        }
        self.asked = None;
        self.certain == *found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_missing_leaves_two_values_and_no_third() {
        let mut value = Known::certainly(1);
        value.ask(2);
        assert!(value.clone().settle(&1) && value.clone().settle(&2) && !value.clone().settle(&3));
        assert!(value.settle(&2));
        assert_eq!((value.certain(), value.asked()), (&2, None));
        assert!(!value.settle(&1), "what was found once does not go back");
        value.ask(3);
        value.refuse();
        assert!(!value.settle(&3));
    }
}
