mod page;
mod picture;
mod script;
mod story;
